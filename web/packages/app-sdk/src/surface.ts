// What a surface gets from the Runtime: the restricted SDK. A surface projects state and asks; it decides nothing.

import type { Payload } from "./bridge/frames.ts";
import { sessionDataOf, type SessionData } from "./bridge/session-data.ts";
import type { AppContext, Session, Unsubscribe } from "./bridge/session.ts";
import type { Json, JsonObject } from "./json.ts";

export type Language = "en" | "zh";

/** What the Runtime projects into every surface; `operation` is the newest of this instance. */
export interface SurfaceState {
  readonly instance_state: string;
  /** The server's time at the projection, RFC 3339. */
  readonly now: string;
  readonly operation: OperationState | null;
  readonly activation: "starting" | "ready" | null;
  readonly language: Language;
  readonly theme?: "light" | "dark";
}

/** A Runtime operation. The durations were true at `now` of the same projection. */
export interface OperationState {
  readonly name: string;
  readonly params: JsonObject;
  readonly state: string;
  readonly outcome: string | null;
  readonly started_at: string;
  readonly ends_at: string;
  readonly duration_ms: number;
  readonly elapsed_ms: number;
  readonly remaining_ms: number;
}

export type LifecycleEvent =
  | { readonly type: "start" }
  | { readonly type: "foreground" }
  | { readonly type: "background"; readonly reason?: string }
  | { readonly type: "suspend"; readonly reason?: string }
  | { readonly type: "restore"; readonly snapshot?: Json }
  | { readonly type: "closing"; readonly wait_ms?: number; readonly reason?: string };

export interface Lifecycle {
  /**
   * Hears at once what came before anybody listened: `restore`, if there was one, then the newest event. Then every
   * further one.
   */
  subscribe(listener: (event: LifecycleEvent) => void): Unsubscribe;
  /** Saves up to 64 KiB that a later `restore` brings back. */
  snapshot(data: Json): Promise<void>;
  /** Asks to stay for up to 5 s after `closing`. The Runtime has the last word. */
  deferClose(waitMs: number): Promise<void>;
}

export interface StateFeed<State> {
  /** The newest projection; null before the first. */
  snapshot(): State | null;
  /** Hears the newest projection at once, if there is one, and then every further one. */
  subscribe(listener: (state: State) => void): Unsubscribe;
  /** Asks for a projection now: what changes by time alone is projected at changes only. */
  refresh(): Promise<void>;
}

export interface AgentMessage {
  /** What `acknowledge` takes. */
  readonly id: string;
  readonly position: number;
  readonly message_id: string;
  readonly conversation_id: string;
  readonly type: string;
  readonly payload: JsonObject;
  readonly needs_ack: boolean;
}

export interface AgentMessages {
  list(request?: { readonly after?: number; readonly limit?: number }): Promise<{
    readonly items: readonly AgentMessage[];
    readonly next: number | null;
  }>;
  /** Messages may come again after a new connection: take each `id` once. */
  subscribe(
    options: {
      readonly conversation_id?: string;
      readonly types?: readonly string[];
      readonly include_pending?: boolean;
    },
    listener: (message: AgentMessage) => void | Promise<void>,
  ): Unsubscribe;
  acknowledge(id: string): Promise<void>;
}

export interface Surface<State = SurfaceState, Data extends JsonObject = JsonObject> {
  readonly app: AppContext;
  readonly lifecycle: Lifecycle;
  readonly state: StateFeed<State>;
  readonly sessionData: SessionData<Data>;
  readonly agentMessages: AgentMessages;
  readonly actions: {
    /** A UI action that the manifest declares. A repeat under the same `id` acts once. */
    dispatch(action: { readonly id: string; readonly action: string; readonly params?: JsonObject }): Promise<unknown>;
  };
  readonly diagnostics: { log(level: "debug" | "info" | "warning" | "error", message: string): void };
}

const PHASES = ["start", "foreground", "background", "suspend", "restore", "closing"] as const;

/** The SDK over a session that is about to begin, so that not even its first events are missed. */
export function surfaceOf<State, Data extends JsonObject>(session: Session): Surface<State, Data> {
  return {
    get app() {
      return session.context;
    },
    lifecycle: lifecycleOf(session),
    state: stateOf<State>(session),
    sessionData: sessionDataOf<Data>(session),
    agentMessages: agentMessagesOf(session),
    actions: {
      dispatch: ({ id, action, params = {} }) => session.request("ui.action", { id, action, params }),
    },
    diagnostics: {
      log: (level, message) => session.tell("diagnostics.log", { level, message: message.slice(0, 2000) }),
    },
  };
}

export function stateOf<State>(session: Session): StateFeed<State> {
  const newest = new Newest<State>(session, null);
  const take = (payload: Payload): void => {
    const { state } = payload;
    if (state !== undefined && state !== null) newest.set(state as State);
  };
  session.on("init", take);
  session.on("state.changed", take);
  session.subscribe("state", {}, (_, payload) => take(payload));
  return {
    snapshot: () => newest.value,
    subscribe: (listener) => newest.subscribe(listener),
    refresh: async () => take({ state: await session.request("state.get") }),
  };
}

function lifecycleOf(session: Session): Lifecycle {
  const newest = new Newest<LifecycleEvent>(session, null);
  let restored: LifecycleEvent | null = null;
  let heard = false;
  for (const type of PHASES) {
    session.on(`lifecycle.${type}`, (payload) => {
      const event = { ...payload, type } as LifecycleEvent;
      if (type === "restore" && !heard) restored = event;
      else newest.set(event);
    });
  }
  return {
    subscribe: (listener) => {
      heard = true;
      const missed = restored;
      restored = null;
      if (missed !== null) session.guard(() => listener(missed));
      return newest.subscribe(listener);
    },
    snapshot: async (data) => void (await session.request("lifecycle.snapshot", { data })),
    deferClose: async (waitMs) => void (await session.request("lifecycle.defer_close", { wait_ms: waitMs })),
  };
}

function agentMessagesOf(session: Session): AgentMessages {
  return {
    list: async (request = {}) =>
      (await session.request("inbox.list", { ...request })) as Awaited<ReturnType<AgentMessages["list"]>>,
    subscribe: (options, listener) =>
      session.subscribe("inbox", { ...options }, (_, payload) => listener(payload["message"] as AgentMessage)),
    acknowledge: async (id) => void (await session.request("inbox.ack", { id })),
  };
}

/** One value that changes; a listener hears the present one first. */
class Newest<Value> {
  readonly #session: Session;
  readonly #listeners = new Set<(value: Value) => void>();
  value: Value | null;

  constructor(session: Session, value: Value | null) {
    this.#session = session;
    this.value = value;
  }

  set(value: Value): void {
    this.value = value;
    for (const listener of [...this.#listeners]) this.#session.guard(() => listener(value));
  }

  subscribe(listener: (value: Value) => void): Unsubscribe {
    this.#listeners.add(listener);
    const { value } = this;
    if (value !== null) this.#session.guard(() => listener(value));
    return () => this.#listeners.delete(listener);
  }
}
