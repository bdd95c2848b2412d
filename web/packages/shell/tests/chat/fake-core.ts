// A Runtime that does what the test says: it notes what is asked and tells what it is told to tell.

import { LoopError, emptyContent, type Block, type ErrorCode, type Json, type JsonObject } from "@lineloop/ui-model";
import type { ActorName, ChatCore, ChatState, LinkPhase, Place, Saying, Waiting } from "../../src/runtime/chat-core.ts";
import { isPlace } from "../../src/runtime/chat-core.ts";
import { Store } from "../../src/runtime/store.ts";
import type { Call, HeldSaying, Message, Snapshot } from "../../src/chat/model/wire.ts";

export const ROOT = "conv_a";
export const PERSON: ActorName = { kind: "user", key: "local" };
export const ASSISTANT: ActorName = { kind: "operator", key: "assistant" };

type Answerer = (payload: JsonObject) => Promise<JsonObject> | JsonObject;

interface Following {
  readonly conversationId: string;
  readonly onEvent: (type: string, payload: JsonObject) => void;
}

export interface Asked {
  readonly type: string;
  readonly payload: JsonObject;
}

export class FakeCore implements ChatCore {
  readonly link = new Store<LinkPhase>("online");
  readonly state = new Store<ChatState | null>(chatState());
  readonly outbox = new Store<readonly Waiting[]>([]);
  readonly made = new Store<ReadonlyMap<Place, string>>(new Map());
  /** Every request and action, in order; an action's type is its name. */
  readonly asked: Asked[] = [];
  readonly answers = new Map<string, Answerer>();
  /** The browser has no room for another saying. */
  full = false;
  readonly followings = new Set<Following>();
  #keys = 0;

  say(saying: Saying): string {
    if (this.full) throw refusal("storage_unavailable");
    this.#keys += 1;
    const key = `key_${this.#keys}`;
    const { target = null, reply_to_id = null } = saying;
    const created_at = new Date(time(500 + this.#keys)).toISOString();
    const kept = { conversation_id: saying.conversation_id, text: saying.text, target, reply_to_id };
    this.outbox.update((kepts) => [...kepts, { key, ...kept, created_at, state: "waiting", code: null }]);
    return key;
  }

  again(key: string): void {
    this.asked.push({ type: "again", payload: { key } });
    this.outbox.update((kept) => kept.map((one) => (one.key === key ? { ...one, state: "waiting", code: null } : one)));
  }

  discard(key: string): void {
    this.outbox.update((kept) => kept.filter((one) => one.key !== key));
  }

  /** The conversation of the words that wait for one is made. */
  make(conversation_id: string): void {
    const place = this.outbox.get().map((one) => one.conversation_id).find(isPlace);
    if (place === undefined) throw new Error("nothing waits for a conversation");
    this.outbox.update((kept) => kept.map((one) => (one.conversation_id === place ? { ...one, conversation_id } : one)));
    this.made.update((made) => new Map([...made, [place, conversation_id]]));
  }

  dispatch(action: string, params: JsonObject): Promise<JsonObject> {
    return this.request(action, params);
  }

  async exportPath(conversation_id: string, format: string): Promise<string> {
    await this.request("export", { conversation_id, format });
    return `/download/${format}`;
  }

  async request(type: string, payload: JsonObject): Promise<JsonObject> {
    this.asked.push({ type, payload });
    const answer = this.answers.get(type);
    return answer === undefined ? {} : answer(payload);
  }

  follow(_family: string, payload: JsonObject, onEvent: Following["onEvent"]): () => void {
    const following = { conversationId: payload["conversation_id"] as string, onEvent };
    this.followings.add(following);
    return () => this.followings.delete(following);
  }

  /** Tells it to whoever follows the conversation now. */
  tell(type: string, payload: object, conversationId = ROOT): void {
    for (const one of [...this.followings]) {
      if (one.conversationId === conversationId) one.onEvent(`messages.${type}`, payload as JsonObject);
    }
  }

  snapshot(parts: Partial<Snapshot> = {}, conversationId = ROOT): void {
    this.tell("snapshot", { messages: [], more: false, calls: [], sayings: [], ...parts }, conversationId);
  }

  message(one: Message, conversationId = ROOT): void {
    this.tell("message", { message: one }, conversationId);
  }

  append(id: string, seq: number, content: string, blockId = "text", conversationId = ROOT): void {
    const patch = { op: "append", seq, mask: "block.content", block: { id: blockId, content } };
    this.tell("patch", { message_id: id, patch }, conversationId);
  }

  asks(type: string): readonly JsonObject[] {
    return this.asked.filter((one) => one.type === type).map((one) => one.payload);
  }
}

export const refusal = (code: ErrorCode): LoopError => new LoopError(code, code);

/** A Runtime's answer that comes when the test says so. */
export class Later {
  readonly promise: Promise<JsonObject>;
  answer: (value: JsonObject) => void = () => undefined;
  refuse: (code: ErrorCode) => void = () => undefined;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.answer = resolve;
      this.refuse = (code) => reject(refusal(code));
    });
  }
}

const START = Date.parse("2026-03-02T09:00:00.000Z");
export const time = (seconds: number): number => START + seconds * 1000;
export const stamp = (seconds: number): string => new Date(time(seconds)).toISOString();

export function chatState(parts: Partial<ChatState> = {}): ChatState {
  return {
    connection: { state: "online", waiting: 0, since: null },
    person: PERSON,
    conversations: [
      { id: ROOT, title: "Report", name: null, created_at: stamp(0), last_at: stamp(0), last_ordinal: 1, unread: 0 },
      { id: "conv_b", title: "Garden", name: null, created_at: stamp(0), last_at: stamp(0), last_ordinal: 1, unread: 2 },
    ],
    recipients: [{ ...ASSISTANT, display_name: "Assistant", description: "", online: true }],
    recipients_known: true,
    model: { target: "demo", label: "Demo", chosen: false },
    ...parts,
  };
}

export function block(type: string, content: string, more: { readonly [name: string]: Json } = {}): Block {
  return { id: type, type, content, ...more };
}

export function message(ordinal: number, parts: Partial<Message> & { readonly blocks?: readonly Block[] } = {}): Message {
  const { blocks = [block("text", `message ${ordinal}`)], ...rest } = parts;
  const mine = rest.actor?.kind === "user";
  return {
    id: `msg_${ordinal}`,
    conversation_id: ROOT,
    actor: ASSISTANT,
    target: null,
    key: `k${ordinal}`,
    reply_to_id: null,
    purpose: mine ? "input" : "speech",
    status: "completed",
    revision: 0,
    ordinal,
    content: { ...emptyContent(), blocks },
    created_at: stamp(ordinal),
    updated_at: stamp(ordinal),
    ...rest,
  };
}

export const said = (ordinal: number, words: string, parts: Partial<Message> = {}): Message =>
  message(ordinal, { actor: PERSON, target: ASSISTANT, blocks: [block("text", words)], ...parts });

export function held(key: string, parts: Partial<HeldSaying> = {}): HeldSaying {
  const base = { key, conversation_id: ROOT, state: "pending" as const, text: key, target: null, reply_to_id: null };
  return { ...base, created_at: stamp(600), ...parts };
}

export function call(parts: Partial<Call> = {}): Call {
  return {
    call_id: "call_1",
    conversation_id: ROOT,
    agent: ASSISTANT,
    run_message_id: null,
    app_scope: "pomodoro",
    app_title: "Pomodoro",
    method: "pomodoro.start",
    title: "Start a pomodoro",
    params: { minutes: 20, label: "tea" },
    state: "accepted",
    receipts: [],
    result: null,
    error: null,
    accepted_at: stamp(2),
    ended_at: null,
    ends_at: null,
    ...parts,
  };
}
