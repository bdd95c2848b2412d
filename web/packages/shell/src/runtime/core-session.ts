// One session of a core app (chat, app-registry, settings) with the Runtime, opened again after every reconnect.
//
// Its frames are those of the bridge (spec/protocol.md §10.1), carried inside `frame` of the shell's connection.
// The SDK for apps has no such session: what only core apps may ask for exists in the shell alone. Requests fail at
// once when the connection goes, and a refused subscription is told.

import type { JsonObject } from "@lineloop/ui-model";
import type { RuntimeClient } from "./client.ts";
import { Store } from "./store.ts";
import { freshId, type Time } from "./time.ts";
import { isTooLarge, lost, object, read, request, tooLarge } from "./wire.ts";

const SDK = "shell/1";
const ANSWER_WAIT_MS = 30_000;

export type OnEvent = (type: string, payload: JsonObject) => void;

interface Follow {
  readonly family: string;
  readonly payload: JsonObject;
  readonly onEvent: OnEvent;
  /** Its name in the session as it stands; a new one in every session. */
  subscription: string | null;
}

interface Pending {
  readonly resolve: (ok: JsonObject) => void;
  readonly reject: (error: unknown) => void;
  readonly stop: () => void;
}

export class CoreSession {
  /** The `init` of the session as it stands; null while there is none. */
  readonly init = new Store<JsonObject | null>(null);
  readonly #client: RuntimeClient;
  readonly #scope: string;
  readonly #time: Time;
  readonly #follows = new Set<Follow>();
  readonly #pending = new Map<string, Pending>();
  #session: string | null = null;
  #round = 0;
  // Frames of a session may overtake the answer that names it: they wait here.
  #early: { readonly session: string; readonly text: string }[] = [];
  #opening = false;

  constructor(client: RuntimeClient, scope: string, time: Time) {
    this.#client = client;
    this.#scope = scope;
    this.#time = time;
    client.on("frame", (payload) => this.#arrive(payload));
    client.link.subscribe(() => {
      if (client.link.get() !== "online") this.#end();
    });
    client.onOnline(() => void this.#open());
  }

  /**
   * Waits for a session that is on its way. Rejects with LoopError: `connection_lost` while the Runtime is gone and when
   * it goes, `limit_exceeded` for too large a frame.
   */
  request(type: string, payload: JsonObject): Promise<JsonObject> {
    if (this.init.get() !== null) return this.#ask(type, payload);
    return this.#coming().then(() => this.#ask(type, payload));
  }

  /** `onEvent` also hears `<family>.refused {code, message}` when the Runtime does not allow it. */
  follow(family: string, payload: JsonObject, onEvent: OnEvent): () => void {
    const follow: Follow = { family, payload, onEvent, subscription: null };
    this.#follows.add(follow);
    if (this.init.get() !== null) void this.#subscribe(follow);
    return () => {
      this.#follows.delete(follow);
      const name = follow.subscription;
      if (name === null || this.init.get() === null) return;
      this.#ask(`${family}.unsubscribe`, { subscription: name }).catch(() => undefined);
    };
  }

  async #open(): Promise<void> {
    this.#end();
    this.#round += 1;
    const round = this.#round;
    this.#opening = true;
    try {
      const answer = await this.#client.request("session.open", { app_scope: this.#scope });
      const session = answer["session"];
      if (round !== this.#round || typeof session !== "string") return;
      this.#session = session;
      const early = this.#early.filter((frame) => frame.session === session);
      this.#stopCollecting();
      for (const frame of early) this.#read(frame.text);
      await this.#ask("hello", { sdk: SDK });
    } catch {
      // The connection broke: the next welcome opens the session again.
      if (round === this.#round) this.#stopCollecting();
    }
  }

  /** Resolves with the session's `init`. A page that was just opened is connecting: nothing was lost yet. */
  #coming(): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        for (const stop of stops) stop();
        settle();
      };
      const look = () => {
        const phase = this.#client.link.get();
        if (this.init.get() !== null) end(resolve);
        else if (phase === "gone" || phase === "unauthenticated") end(() => reject(lost()));
      };
      const stops = [
        this.init.subscribe(look),
        this.#client.link.subscribe(look),
        this.#time.after(ANSWER_WAIT_MS, () => end(() => reject(lost()))),
      ];
      look();
    });
  }

  #stopCollecting(): void {
    this.#opening = false;
    this.#early = [];
  }

  #end(): void {
    this.#round += 1;
    this.#session = null;
    this.#stopCollecting();
    for (const pending of this.#pending.values()) {
      pending.stop();
      pending.reject(lost());
    }
    this.#pending.clear();
    for (const follow of this.#follows) follow.subscription = null;
    this.init.set(null);
  }

  #ask(type: string, payload: JsonObject): Promise<JsonObject> {
    const session = this.#session;
    if (session === null) return Promise.reject(lost());
    const id = freshId("req");
    const text = request(id, type, payload);
    // The Runtime has no answer for a frame that it does not read, so it never gets one.
    if (isTooLarge(text)) return Promise.reject(tooLarge());
    return new Promise((resolve, reject) => {
      const stop = this.#time.after(ANSWER_WAIT_MS, () => {
        this.#pending.delete(id);
        reject(lost());
      });
      this.#pending.set(id, { resolve, reject, stop });
      this.#client.send("frame", { session, text });
    });
  }

  #arrive(payload: JsonObject): void {
    const { session, text } = payload;
    if (typeof session !== "string" || typeof text !== "string") return;
    if (session === this.#session) this.#read(text);
    else if (this.#opening) this.#early.push({ session, text });
  }

  #read(text: string): void {
    const frame = read(text);
    if (frame === null) return;
    if (frame.kind === "event") {
      if (frame.type === "init") this.#begin(frame.payload);
      else this.#tell(frame.type, frame.payload);
      return;
    }
    const pending = this.#pending.get(frame.to);
    if (pending === undefined) return;
    this.#pending.delete(frame.to);
    pending.stop();
    if (frame.kind === "answer") pending.resolve(frame.ok);
    else pending.reject(frame.error);
  }

  #begin(init: JsonObject): void {
    this.init.set(init);
    for (const follow of [...this.#follows]) {
      if (follow.subscription === null) void this.#subscribe(follow);
    }
  }

  #tell(type: string, payload: JsonObject): void {
    const name = payload["subscription"];
    for (const follow of [...this.#follows]) {
      if (follow.subscription !== null && follow.subscription === name) follow.onEvent(type, payload);
    }
  }

  async #subscribe(follow: Follow): Promise<void> {
    const name = freshId("sub");
    follow.subscription = name;
    try {
      await this.#ask(`${follow.family}.subscribe`, { ...follow.payload, subscription: name });
    } catch (error) {
      const { code, message } = error as { code?: string; message?: string };
      if (code === "connection_lost" || follow.subscription !== name) return;
      follow.onEvent(`${follow.family}.refused`, object({ code: code ?? "internal", message: message ?? "" }));
    }
  }
}
