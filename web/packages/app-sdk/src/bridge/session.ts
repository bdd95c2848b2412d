// The app's end of one app session: requests with their answers, events, and subscriptions that survive a new
// connection. Decides what is asked again and when a request is lost; leaves what frames mean to its users.

import { errorOf, FrameRefused, RuntimeError } from "./errors.ts";
import { decode, encode, type Answer, type Payload } from "./frames.ts";
import { REAL_TIMERS, type Port, type Timers } from "./port.ts";

export type Unsubscribe = () => void;

/** Who the Runtime says this session is. Nothing an app sends can change it. */
export interface AppContext {
  readonly app_scope: string;
  readonly app_session_id: string;
  readonly conversation_id: string;
  readonly app_version?: string;
  readonly instance_id?: string;
  readonly features?: readonly string[];
}

export interface SessionOptions {
  readonly timers?: Timers;
  /** After this long a request fails with `deadline_exceeded`. */
  readonly timeoutMs?: number;
  /** Hears of faults that no caller waits for: a listener that threw, a subscription that was refused. */
  readonly onFault?: (error: unknown) => void;
}

/** Something that has to be asked for again after a new connection. */
export interface Resumable {
  resume(): void;
}

type Listener = (payload: Payload) => void;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: RuntimeError): void;
  stop(): void;
}

export class Session {
  readonly #port: Port;
  readonly #timers: Timers;
  readonly #timeoutMs: number;
  readonly #onFault: (error: unknown) => void;
  readonly #requests = new Map<string, Waiting>();
  readonly #listeners = new Map<string, Set<Listener>>();
  readonly #subscriptions = new Map<string, (type: string, payload: Payload) => void>();
  readonly #resumables = new Set<Resumable>();
  #hello: Payload = {};
  #context: AppContext | undefined;
  #started: ((error?: RuntimeError) => void) | undefined;
  #requestCount = 0;
  #subscriptionCount = 0;
  #closed: RuntimeError | undefined;
  /** Frames from the Runtime that were not valid and passed over. */
  refused = 0;

  constructor(port: Port, options: SessionOptions = {}) {
    this.#port = port;
    this.#timers = options.timers ?? REAL_TIMERS;
    this.#timeoutMs = options.timeoutMs ?? 30_000;
    this.#onFault = options.onFault ?? sayInConsole;
    port.onText((text) => this.#receive(text));
    port.onReconnect?.(() => this.#reconnect());
    port.onClose?.(() => this.close(new RuntimeError("connection_lost", "the session has ended")));
  }

  get context(): AppContext {
    if (this.#context === undefined) throw new RuntimeError("bridge_invalid", "the session has not begun");
    return this.#context;
  }

  /** Says hello and waits for `init`. Resolves to the payload of `init`. */
  async start(hello: Payload): Promise<Payload> {
    this.#hello = hello;
    const first = new Promise<Payload>((resolve, reject) => {
      const stop = this.on("init", (payload) => {
        stop();
        resolve(payload);
      });
      this.#started = (error) => {
        if (error !== undefined) reject(error);
      };
    });
    first.catch(() => undefined);
    // An answer without its `init` would be waited for without end.
    const late = this.#timers.after(this.#timeoutMs, () => this.#started?.(tooLate("init")));
    try {
      await this.request("hello", hello);
      return await first;
    } finally {
      late();
      this.#started = undefined;
    }
  }

  /** Asks, and gives the answer. Throws RuntimeError with the Runtime's code, or `connection_lost`,
   * `deadline_exceeded`. */
  request(type: string, payload: Payload = {}): Promise<unknown> {
    if (this.#closed !== undefined) return Promise.reject(this.#closed);
    const id = `r/${(this.#requestCount += 1)}`;
    return new Promise((resolve, reject) => {
      const stop = this.#timers.after(this.#timeoutMs, () => {
        this.#requests.delete(id);
        reject(tooLate(type));
      });
      this.#requests.set(id, { resolve, reject, stop });
      this.#port.send(encode(type, payload, id));
    });
  }

  /** Tells something that has no answer. */
  tell(type: string, payload: Payload): void {
    if (this.#closed === undefined) this.#port.send(encode(type, payload));
  }

  /** Hears every event of a type, those of subscriptions excepted. */
  on(type: string, listener: Listener): Unsubscribe {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** A new name for a subscription, whose events `listener` hears until `forget`. */
  nameSubscription(listener: (type: string, payload: Payload) => void): string {
    const name = `sub/${(this.#subscriptionCount += 1)}`;
    this.#subscriptions.set(name, listener);
    return name;
  }

  forget(name: string): void {
    this.#subscriptions.delete(name);
  }

  keep(resumable: Resumable): Unsubscribe {
    this.#resumables.add(resumable);
    return () => this.#resumables.delete(resumable);
  }

  /**
   * Asks for `<what>.subscribe` once the session has begun and after every new connection; `listener` hears the
   * events that name it until it is stopped.
   */
  subscribe(
    what: "state" | "inbox",
    payload: Payload,
    listener: (type: string, payload: Payload) => void,
  ): Unsubscribe {
    let name = "";
    const resume = (): void => {
      this.forget(name);
      name = this.nameSubscription((type, event) => this.guard(() => listener(type, event)));
      this.request(`${what}.subscribe`, { ...payload, subscription: name }).catch((error) => this.lost(error));
    };
    const drop = this.keep({ resume });
    if (this.#context !== undefined) resume();
    return () => {
      drop();
      this.forget(name);
      this.request(`${what}.unsubscribe`, { subscription: name }).catch((error) => this.lost(error));
    };
  }

  /** Runs a listener of the app: what it throws, now or later, is told and stops nothing. */
  guard(work: () => unknown): void {
    try {
      const done = work();
      if (done instanceof Promise) done.catch(this.#onFault);
    } catch (error) {
      this.#onFault(error);
    }
  }

  /** Ends the session from this side: whoever waits is told, nothing is sent any more. Idempotent. */
  close(reason = new RuntimeError("connection_lost", "the session was closed")): void {
    if (this.#closed !== undefined) return;
    this.#closed = reason;
    this.#rejectAll(reason);
    this.#started?.(reason);
    this.#resumables.clear();
    this.#subscriptions.clear();
    this.#port.close?.();
  }

  #reconnect(): void {
    if (this.#closed !== undefined) return;
    this.#rejectAll(new RuntimeError("connection_lost", "the connection was lost before the answer came"));
    this.request("hello", this.#hello).catch((error) => this.lost(error));
  }

  #rejectAll(reason: RuntimeError): void {
    const waiting = [...this.#requests.values()];
    this.#requests.clear();
    for (const request of waiting) {
      request.stop();
      request.reject(reason);
    }
  }

  #receive(text: string): void {
    if (this.#closed !== undefined) return;
    let frame;
    try {
      frame = decode(text, "to_app");
    } catch (error) {
      if (!(error instanceof FrameRefused)) throw error;
      this.refused += 1;
      return;
    }
    if ("reply_to" in frame) this.#answered(frame);
    else this.#heard(frame.type, frame.payload);
  }

  #answered(answer: Answer): void {
    const waiting = this.#requests.get(answer.reply_to);
    if (waiting === undefined) return;
    this.#requests.delete(answer.reply_to);
    waiting.stop();
    if (answer.error === undefined) waiting.resolve(answer.ok);
    else waiting.reject(errorOf(answer.error));
  }

  #heard(type: string, payload: Payload): void {
    if (type === "init") this.#begun(payload);
    const { subscription } = payload;
    if (typeof subscription === "string") {
      this.#subscriptions.get(subscription)?.(type, payload);
      return;
    }
    for (const listener of [...(this.#listeners.get(type) ?? [])]) this.guard(() => listener(payload));
  }

  #begun(payload: Payload): void {
    this.#context = payload as unknown as AppContext;
    for (const resumable of [...this.#resumables]) resumable.resume();
  }

  /**
   * Told of a request that failed and that nobody waits for: a lost connection is made good by the next one.
   */
  lost(error: unknown): void {
    if (!(error instanceof RuntimeError && error.code === "connection_lost")) this.#onFault(error);
  }
}

function tooLate(type: string): RuntimeError {
  return new RuntimeError("deadline_exceeded", `no answer to ${type} came in time`);
}

function sayInConsole(error: unknown): void {
  (globalThis as unknown as { console?: { error(...words: unknown[]): void } }).console?.error(error);
}
