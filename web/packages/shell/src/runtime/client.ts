// The one connection of this page to the Runtime: hello, requests and answers, events, and coming back.
//
// Decides when the Runtime counts as gone and when to try again. Leaves to others what the events mean; whoever
// needs something re-made after a reconnect asks for `onOnline`.

import type { ErrorCode, JsonObject } from "@lineloop/ui-model";
import type { Access } from "./access.ts";
import type { LinkPhase } from "./chat-core.ts";
import type { Prover } from "./handshake.ts";
import { Store } from "./store.ts";
import { freshId, type Time } from "./time.ts";
import { event, isTooLarge, lost, object, read, request, tooLarge, type Incoming } from "./wire.ts";

/** The part of a WebSocket that is used. */
export interface Socket {
  send(text: string): void;
  close(code?: number): void;
  onopen: (() => void) | null;
  onmessage: ((message: { readonly data: unknown }) => void) | null;
  onclose: ((end: { readonly code: number }) => void) | null;
}

export interface ClientParts {
  readonly connect: () => Socket;
  readonly access: Access;
  readonly prove: Prover;
  readonly time: Time;
  /** The rest of `hello`: tab, visible, focused, language. */
  readonly greeting: () => JsonObject;
  /** The Runtime speaks another version than this page; a code of the address that is not used yet. */
  readonly outdated: (code: string | null) => void;
}

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 5_000;
const HELLO_WAIT_MS = 10_000;
const ANSWER_WAIT_MS = 30_000;
const HEARTBEAT_MS = 15_000;
const UNAUTHENTICATED = 4401;
export const SHELL_VERSION = 3;

interface Pending {
  readonly resolve: (ok: JsonObject) => void;
  readonly reject: (error: unknown) => void;
  readonly stop: () => void;
}

/** How long to wait before try `attempt` (0 = the first): doubling, bounded, ± 30 % so that pages do not come together. */
export function waitBefore(attempt: number, random: number): number {
  return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt) * (0.7 + 0.6 * random);
}

export class RuntimeClient {
  readonly link = new Store<LinkPhase>("connecting");
  /** What the Runtime said in answer to hello; kept while it is gone. */
  readonly welcome = new Store<JsonObject | null>(null);
  /** Epoch milliseconds of the next try, while the Runtime is gone. */
  readonly nextTry = new Store<number | null>(null);

  readonly #parts: ClientParts;
  readonly #pending = new Map<string, Pending>();
  readonly #listeners = new Map<string, Set<(payload: JsonObject) => void>>();
  readonly #online = new Set<() => void>();
  #socket: Socket | null = null;
  #attempt = 0;
  #heard = 0;
  #stopTimer: () => void = () => undefined;
  #stopWatch: () => void = () => undefined;
  #retry_ms: number | null = null;
  #closed = false;
  /** The code of the address until the Runtime has taken or refused it. */
  #code: string | null = null;
  /** The key that came of a code, from when the proof was said until the Runtime has answered. */
  #made: string | null = null;
  #greetedBy: "code" | "made" | "key" = "key";

  constructor(parts: ClientParts) {
    this.#parts = parts;
    parts.access.onChange(() => {
      this.#takeCode();
      if (this.link.get() === "unauthenticated") this.tryNow();
    });
  }

  start(): void {
    this.#takeCode();
    this.#open();
  }

  close(): void {
    this.#closed = true;
    this.#drop();
  }

  /** The person (or the network) says that now is a good time. */
  tryNow(): void {
    if (this.#closed || this.#socket !== null) return;
    this.#attempt = 0;
    this.#open();
  }

  /** Runs now when online, and after every welcome. */
  onOnline(listener: () => void): () => void {
    this.#online.add(listener);
    if (this.link.get() === "online") listener();
    return () => this.#online.delete(listener);
  }

  on(type: string, listener: (payload: JsonObject) => void): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners.add(listener));
    return () => listeners.delete(listener);
  }

  /** Rejects with LoopError; `connection_lost` when no answer can come any more. */
  request(type: string, payload: JsonObject): Promise<JsonObject> {
    const socket = this.#socket;
    if (socket === null || this.link.get() !== "online") return Promise.reject(lost());
    return this.#ask(socket, type, payload, ANSWER_WAIT_MS);
  }

  /** Dropped when the Runtime is not there: what an event tells is told again after the next welcome. */
  send(type: string, payload: JsonObject): void {
    if (this.link.get() === "online") this.#socket?.send(event(type, payload));
  }

  #ask(socket: Socket, type: string, payload: JsonObject, wait_ms: number): Promise<JsonObject> {
    const id = freshId("req");
    const text = request(id, type, payload);
    if (isTooLarge(text)) return Promise.reject(tooLarge());
    return new Promise((resolve, reject) => {
      const stop = this.#parts.time.after(wait_ms, () => {
        this.#pending.delete(id);
        reject(lost());
      });
      this.#pending.set(id, { resolve, reject, stop });
      socket.send(text);
    });
  }

  #open(): void {
    this.#stopTimer();
    this.nextTry.set(null);
    if (this.link.get() === "unauthenticated") this.link.set("connecting");
    let socket: Socket;
    try {
      socket = this.#parts.connect();
    } catch {
      this.#goAway(1006);
      return;
    }
    this.#socket = socket;
    this.#stopWatch = this.#parts.time.after(HELLO_WAIT_MS, () => this.#lose(socket));
    socket.onopen = () => void this.#greet(socket);
    socket.onmessage = (message) => {
      if (this.#socket === socket) this.#receive(message.data);
    };
    socket.onclose = (end) => {
      if (this.#socket === socket) this.#goAway(end.code);
    };
  }

  async #greet(socket: Socket): Promise<void> {
    const secret = this.#code ?? this.#made ?? this.#parts.access.key();
    if (secret === null) {
      this.#shutOut();
      return;
    }
    this.#greetedBy = this.#code !== null ? "code" : this.#made !== null ? "made" : "key";
    try {
      const welcome = await this.#prove(socket, secret);
      if (this.#socket === socket) this.#enter(socket, welcome);
    } catch (error) {
      if (this.#socket !== socket) return;
      if (saysCode(error, "protocol_version_unsupported")) this.#parts.outdated(this.#code);
      this.#goAway(saysCode(error, "unauthorized") ? UNAUTHENTICATED : 1006);
    }
  }

  // Whoever cannot prove that it is the Runtime is not: the page then waits for the Runtime to come back.
  async #prove(socket: Socket, secret: string): Promise<JsonObject> {
    const proof = await this.#parts.prove(secret);
    const hello = { ...this.#parts.greeting(), ...proof.hello, versions: [SHELL_VERSION] };
    const said = await proof.answer(await this.#ask(socket, "hello", hello, HELLO_WAIT_MS));
    if (said === null) throw lost();
    // The answer may be lost after the Runtime has used the code up: this key then lets the page in.
    if (this.#greetedBy === "code") this.#made = await proof.key();
    return this.#ask(socket, "prove", { proof: said }, HELLO_WAIT_MS);
  }

  #takeCode(): void {
    this.#code = this.#parts.access.takeCode() ?? this.#code;
  }

  #enter(socket: Socket, welcome: JsonObject): void {
    const beat = typeof welcome["heartbeat_ms"] === "number" ? welcome["heartbeat_ms"] : HEARTBEAT_MS;
    if (this.#made !== null && this.#greetedBy !== "key") this.#parts.access.keep(this.#made);
    this.#code = null;
    this.#made = null;
    this.#attempt = 0;
    this.#heard = this.#parts.time.now();
    this.#watch(socket, Math.max(1_000, beat));
    this.welcome.set(welcome);
    this.link.set("online");
    for (const listener of [...this.#online]) listener();
  }

  // Two beats without a word and the connection counts as lost. A page that slept hears its own timer late: it
  // then waits one beat more, because what was said meanwhile is still to be read.
  #watch(socket: Socket, beat_ms: number): void {
    this.#stopWatch();
    const due = this.#parts.time.now() + beat_ms;
    this.#stopWatch = this.#parts.time.after(beat_ms, () => {
      const now = this.#parts.time.now();
      if (now - due > beat_ms) this.#heard = now - beat_ms;
      if (now - this.#heard >= 2 * beat_ms) this.#lose(socket);
      else this.#watch(socket, beat_ms);
    });
  }

  #receive(data: unknown): void {
    this.#heard = this.#parts.time.now();
    const frame = typeof data === "string" ? read(data) : null;
    if (frame === null) return;
    if (frame.kind === "event") this.#tell(frame.type, frame.payload);
    else this.#settle(frame);
  }

  #tell(type: string, payload: JsonObject): void {
    if (type === "bye") this.#retry_ms = typeof payload["retry_ms"] === "number" ? payload["retry_ms"] : null;
    for (const listener of [...(this.#listeners.get(type) ?? [])]) listener(payload);
  }

  #settle(frame: Exclude<Incoming, { kind: "event" }>): void {
    const pending = this.#pending.get(frame.to);
    if (pending === undefined) return;
    this.#pending.delete(frame.to);
    pending.stop();
    if (frame.kind === "answer") pending.resolve(object(frame.ok));
    else pending.reject(Object.assign(frame.error, { wire_code: frame.code }));
  }

  #lose(socket: Socket): void {
    if (this.#socket === socket) this.#goAway(1006);
  }

  #shutOut(): void {
    this.#drop();
    this.link.set("unauthenticated");
  }

  #goAway(code: number): void {
    this.#drop();
    if (this.#closed) return;
    if (code === UNAUTHENTICATED) {
      this.#refuse();
      return;
    }
    const wait_ms = this.#retry_ms ?? waitBefore(this.#attempt, this.#parts.time.random());
    this.#retry_ms = null;
    this.#attempt += 1;
    this.link.set("gone");
    this.nextTry.set(this.#parts.time.now() + wait_ms);
    this.#stopTimer = this.#parts.time.after(wait_ms, () => this.#open());
  }

  // A code that was used before says nothing against the key that came of it, nor against the one that this browser
  // already has: then those are tried.
  #refuse(): void {
    const refused = this.#greetedBy;
    this.#code = null;
    if (refused === "made") this.#made = null;
    if (refused === "key") this.#parts.access.forget();
    if (refused !== "key" && (this.#made ?? this.#parts.access.key()) !== null) this.#open();
    else this.#shutOut();
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    this.#stopTimer();
    this.#stopWatch();
    for (const pending of this.#pending.values()) {
      pending.stop();
      pending.reject(lost());
    }
    this.#pending.clear();
    if (socket === null) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }
}

function saysCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof Error && (error as { wire_code?: string }).wire_code === code;
}
