// Session data as an app sees them (spec/protocol.md §10.2): repeats and older revisions are dropped; after a jump or
// a new connection the data are read again and subscribed to again, so that a listener sees one rising sequence.
// Equal to the logic container's SDK by spec/golden/session_data.

import type { JsonObject } from "../json.ts";
import type { Payload } from "./frames.ts";
import type { Session, Unsubscribe } from "./session.ts";

export interface Snapshot<Data extends JsonObject = JsonObject> {
  readonly data: Data | null;
  /** 0 = nothing was stored yet. */
  readonly revision: number;
}

export interface SessionData<Data extends JsonObject = JsonObject> {
  get(): Promise<Snapshot<Data>>;
  /** Throws RuntimeError `session_data_revision_conflict` unless `expected_revision` is the current one. */
  replace(request: { readonly data: Data; readonly expected_revision: number }): Promise<{ readonly revision: number }>;
  /** Hears the whole current state first, then every newer one. */
  subscribe(listener: (snapshot: Snapshot<Data>) => void): Unsubscribe;
}

export function sessionDataOf<Data extends JsonObject>(session: Session): SessionData<Data> {
  return {
    get: async () => (await session.request("session.get")) as Snapshot<Data>,
    replace: async ({ data, expected_revision }) =>
      (await session.request("session.replace", { data, expected_revision })) as { revision: number },
    subscribe: (listener) => {
      const subscription = new DataSubscription(session, (snapshot) => listener(snapshot as Snapshot<Data>));
      return () => subscription.close();
    },
  };
}

class DataSubscription {
  readonly #session: Session;
  readonly #listener: (snapshot: Snapshot) => void;
  readonly #drop: Unsubscribe;
  #revision = -1;
  #name = "";
  #rounds = 0;
  #live = true;

  constructor(session: Session, listener: (snapshot: Snapshot) => void) {
    this.#session = session;
    this.#listener = listener;
    this.#drop = session.keep(this);
    this.#told(this.#open());
  }

  resume(): void {
    this.#forget();
    this.#told(this.#catchUp());
  }

  close(): void {
    if (!this.#live) return;
    this.#live = false;
    this.#drop();
    this.#forget();
  }

  #open(): Promise<unknown> {
    this.#session.forget(this.#name);
    this.#name = this.#session.nameSubscription((_, payload) => this.#changed(payload));
    return this.#session.request("session.subscribe", { subscription: this.#name });
  }

  async #catchUp(): Promise<void> {
    const round = (this.#rounds += 1);
    const snapshot = (await this.#session.request("session.get")) as Snapshot;
    this.#take(snapshot);
    // A later round asks for the subscription itself.
    if (this.#live && round === this.#rounds) await this.#open();
  }

  #changed(payload: Payload): void {
    const snapshot = payload as unknown as Snapshot;
    if (this.#revision >= 0 && snapshot.revision > this.#revision + 1) this.resume();
    else this.#take(snapshot);
  }

  #take({ data, revision }: Snapshot): void {
    if (!this.#live || revision <= this.#revision) return;
    this.#revision = revision;
    this.#session.guard(() => this.#listener({ data, revision }));
  }

  #forget(): void {
    this.#session.forget(this.#name);
    this.#told(this.#session.request("session.unsubscribe", { subscription: this.#name }));
  }

  #told(asked: Promise<unknown>): void {
    asked.catch((error) => this.#session.lost(error));
  }
}
