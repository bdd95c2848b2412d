// What the chat is given: its session with the Runtime, seen as if it never broke.
//
// The Runtime may go away at any time. Requests then fail with `connection_lost`; subscriptions are made again
// by themselves; what a person says is kept by the page until the Runtime has taken it.

import type { JsonObject } from "@lineloop/ui-model";
import type { Readable } from "./store.ts";
import { freshId } from "./time.ts";
import { MAX_FRAME_BYTES, isTooLarge } from "./wire.ts";

/** What one saying may hold, as JSON: a frame with room for everything beside the words. */
export const MAX_SAID_BYTES = MAX_FRAME_BYTES - 16 * 1024;

export const isTooLong = (text: string): boolean =>
  text.length > MAX_SAID_BYTES || isTooLarge(JSON.stringify(text), MAX_SAID_BYTES);

/** How the page stands to the Runtime; `connection` of the chat state says how the Runtime stands to the server. */
export type LinkPhase = "connecting" | "online" | "gone" | "unauthenticated";

export interface Connection {
  readonly state: "connecting" | "online" | "catching_up" | "offline";
  readonly waiting: number;
  readonly since: string | null;
}

export interface ActorName {
  readonly kind: string;
  readonly key: string;
}

export interface ConversationRow {
  readonly id: string;
  readonly title: string;
  readonly name: string | null;
  readonly created_at: string | null;
  readonly last_at: string | null;
  readonly last_ordinal: number;
  readonly unread: number;
  /** What the person has read goes to here; absent in what an older Runtime tells. */
  readonly read_ordinal?: number;
  /** Set on archived ones. */
  readonly archived_at?: string | null;
  /** Whose it is, as `kind/key`; null while that is not known. */
  readonly owner?: string | null;
}

export interface Recipient extends ActorName {
  readonly display_name: string;
  readonly description: string;
  readonly online: boolean;
}

/** The `target` that is a script instead of a model. */
export const DEMO = "demo";

export interface ModelChoice {
  readonly target: string;
  readonly label: string;
  readonly chosen: boolean;
}

export interface ChatState {
  readonly connection: Connection;
  readonly person: ActorName;
  readonly conversations: readonly ConversationRow[];
  readonly recipients: readonly Recipient[];
  /** false until the server was asked who is there. */
  readonly recipients_known: boolean;
  /** null while nobody told which one answers. */
  readonly model: ModelChoice | null;
}

/** Whom one speaks to without having chosen, before it is known who is there: whoever then is the first. */
export const FIRST_THERE = "first_there";
export type Target = ActorName | typeof FIRST_THERE;

/** Stands for a conversation that is made with the first words said in it: say them to it, and look into `made`. */
export type Place = `place_${string}`;
export const newPlace = (): Place => freshId("place") as Place;
export const isPlace = (conversationId: string): conversationId is Place => conversationId.startsWith("place_");

/** The first operator that is there; else the first that is known. */
export function firstThere(state: ChatState): ActorName | null {
  const first = state.recipients.find((one) => one.online) ?? state.recipients[0];
  return first === undefined ? null : { kind: first.kind, key: first.key };
}

/** What a person said in this page and the Runtime has not taken yet. Kept over reloads. */
export interface Waiting {
  /** Made by the page; the Runtime takes a key once, so it is safe to send it again. */
  readonly key: string;
  /** A Place until its conversation is made. */
  readonly conversation_id: string;
  readonly text: string;
  readonly target: Target | null;
  readonly reply_to_id: string | null;
  readonly created_at: string;
  /** `waiting`: goes out when the Runtime is there. `refused`: the Runtime said no (`code`); it stays until `again` or `discard`. */
  readonly state: "waiting" | "refused";
  readonly code: string | null;
}

export interface Saying {
  readonly conversation_id: string;
  readonly text: string;
  readonly target?: Target;
  readonly reply_to_id?: string;
}

export type ExportFormat = "markdown" | "json";

export interface ChatCore {
  readonly link: Readable<LinkPhase>;
  /** null until the Runtime told it for the first time; keeps its last value while the Runtime is gone. */
  readonly state: Readable<ChatState | null>;
  /** The outbox of the page, oldest first, over all conversations. */
  readonly outbox: Readable<readonly Waiting[]>;
  /** The conversations that were made in this page for words said to a Place. */
  readonly made: Readable<ReadonlyMap<Place, string>>;

  /**
   * Keeps it, sends it now or later, exactly once. Answers the key.
   * Throws a LoopError when nothing was kept: `limit_exceeded` (see isTooLong), `storage_unavailable` (no room).
   */
  say(saying: Saying): string;
  /** Tries a refused one once more. */
  again(key: string): void;
  /** Forgets one that the Runtime has not taken. */
  discard(key: string): void;

  /**
   * One action through `action.dispatch`, with its own id. Answers the receipt.
   * Rejects with a LoopError: `connection_lost` when the Runtime is gone or went away meanwhile; waits while the page is
   * still connecting.
   */
  dispatch(action: string, params: JsonObject): Promise<JsonObject>;
  /** Where the browser fetches the conversation as a file, once. Rejects as `dispatch` does. */
  exportPath(conversation_id: string, format: ExportFormat): Promise<string>;
  /** One request (`messages.list`, `messages.get`, `questions.get` …). Rejects as `dispatch` does. */
  request(type: string, payload: JsonObject): Promise<JsonObject>;
  /**
   * One subscription: sends `<family>.subscribe {subscription, ...payload}` now and after every reconnect, and
   * hands over each event of it (`messages.snapshot`, `messages.message` …) in order. After a reconnect the
   * Runtime sends its snapshot again. `<family>.refused {code, message}` says that the Runtime does not allow it.
   * The answer ends it (`<family>.unsubscribe`).
   */
  follow(family: string, payload: JsonObject, onEvent: (type: string, payload: JsonObject) => void): () => void;
}
