import { describe, expect, test } from "vitest";
import { FIRST_THERE, newPlace } from "../../src/runtime/chat-core.ts";
import { openChat } from "../../src/runtime/chat-session.ts";
import { FakeStorage, settle, World, type FakeSocket } from "../world.ts";

interface Inner {
  readonly id: string;
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

/** The Runtime's side of the chat session. */
class Chat {
  readonly world = new World();
  readonly storage: FakeStorage;
  readonly core: ReturnType<typeof openChat>;
  session = 0;

  constructor(storage = new FakeStorage()) {
    this.storage = storage;
    this.world.access.stored = "kept";
    this.core = openChat(this.world.client, this.storage, this.world.time);
    this.world.client.start();
  }

  async open(): Promise<FakeSocket> {
    const socket = await this.world.welcome();
    const ask = socket.sent.find((frame) => frame.type === "session.open");
    this.session += 1;
    socket.answer(ask?.id, { session: `s${this.session}` });
    await settle();
    this.say("init", { app_scope: "chat", state: { conversations: [], recipients: [], recipients_known: false } });
    await settle();
    return socket;
  }

  inner(type: string): Inner[] {
    return this.world.socket.sent
      .filter((frame) => frame.type === "frame")
      .map((frame) => JSON.parse(String(frame.payload["text"])) as Inner)
      .filter((frame) => frame.type === type);
  }

  say(type: string, payload: unknown): void {
    this.#frame({ v: 1, type, payload });
  }
  answer(id: string | undefined, ok: unknown): void {
    this.#frame({ v: 1, reply_to: id, ok });
  }
  refuse(id: string | undefined, code: string): void {
    this.#frame({ v: 1, reply_to: id, error: { code, message: code } });
  }
  #frame(frame: unknown): void {
    this.world.socket.event("frame", { session: `s${this.session}`, text: JSON.stringify(frame) });
  }
  lose(): void {
    this.world.socket.onclose?.({ code: 1006 });
  }
}

describe("subscriptions", () => {
  test("are made again after a reconnect, under a new name, and hear only their own events", async () => {
    const chat = new Chat();
    const heard: unknown[] = [];
    chat.core.follow("messages", { conversation_id: "c1" }, (type, payload) => heard.push([type, payload["n"]]));
    await chat.open();
    const first = chat.inner("messages.subscribe")[0]?.payload;
    chat.say("messages.snapshot", { subscription: first?.["subscription"], n: 1 });
    chat.lose();
    await chat.world.time.advance(400);
    await chat.open();
    const second = chat.inner("messages.subscribe")[0]?.payload;
    expect(second?.["conversation_id"]).toBe("c1");
    expect(second?.["subscription"]).not.toBe(first?.["subscription"]);
    chat.say("messages.message", { subscription: first?.["subscription"], n: 2 });
    chat.say("messages.snapshot", { subscription: second?.["subscription"], n: 3 });
    expect(heard).toEqual([
      ["messages.snapshot", 1],
      ["messages.snapshot", 3],
    ]);
  });

  test("that ended are not made again", async () => {
    const chat = new Chat();
    const end = chat.core.follow("messages", { conversation_id: "c1" }, () => undefined);
    await chat.open();
    end();
    expect(chat.inner("messages.unsubscribe")).toHaveLength(1);
    chat.lose();
    await chat.world.time.advance(400);
    await chat.open();
    expect(chat.inner("messages.subscribe")).toHaveLength(0);
  });

  test("that the Runtime refuses say so", async () => {
    const chat = new Chat();
    const heard: unknown[] = [];
    chat.core.follow("messages", { conversation_id: "c9" }, (type, payload) => heard.push([type, payload["code"]]));
    await chat.open();
    chat.refuse(chat.inner("messages.subscribe")[0]?.id, "not_found");
    await settle();
    expect(heard).toEqual([["messages.refused", "not_found"]]);
  });

  test("frames that overtake the answer which names their session are read after it", async () => {
    const chat = new Chat();
    const socket = await chat.world.welcome();
    const text = JSON.stringify({ v: 1, type: "init", payload: { state: { conversations: [] } } });
    socket.event("frame", { session: "s1", text });
    socket.answer(socket.sent.find((frame) => frame.type === "session.open")?.id, { session: "s1" });
    await settle();
    expect(chat.core.state.get()).toEqual({ conversations: [] });
  });
});

describe("what a person says", () => {
  test("while the Runtime is gone is kept over a reload and delivered once, in order", async () => {
    const before = new Chat();
    const first = before.core.say({ conversation_id: "c1", text: "one" });
    before.core.say({ conversation_id: "c1", text: "two", target: { kind: "operator", key: "assistant" } });
    const chat = new Chat(before.storage);
    expect(chat.core.outbox.get().map((entry) => entry.text)).toEqual(["one", "two"]);
    await chat.open();
    const says = () => chat.inner("action.dispatch");
    expect(says()).toHaveLength(1);
    expect(says()[0]?.payload).toEqual({
      id: first,
      action: "say",
      params: { conversation_id: "c1", key: first, text: "one" },
    });
    chat.answer(says()[0]?.id, { key: first, state: "pending" });
    await settle();
    expect(says()[1]?.payload["params"]).toMatchObject({ text: "two", target: { kind: "operator", key: "assistant" } });
    chat.answer(says()[1]?.id, {});
    await settle();
    expect(chat.core.outbox.get()).toEqual([]);
    expect(chat.storage.length).toBe(0);
    chat.lose();
    await chat.world.time.advance(400);
    await chat.open();
    expect(chat.inner("action.dispatch")).toEqual([]);
  });

  test("to nobody in particular waits until it is known who is there, also over a reload, and goes to the first", async () => {
    const before = new Chat();
    await before.open();
    before.core.say({ conversation_id: "c1", text: "one", target: FIRST_THERE });
    before.core.say({ conversation_id: "c2", text: "to everybody" });
    await settle();
    expect(before.inner("action.dispatch").map((says) => says.payload["params"])).toMatchObject([{ text: "to everybody" }]);
    const chat = new Chat(before.storage);
    await chat.open();
    const there = { kind: "operator", key: "assistant", display_name: "Assistant", description: "", online: true };
    const met = { kind: "operator", key: "another", display_name: "Another", description: "", online: false };
    const subscription = chat.inner("state.subscribe")[0]?.payload["subscription"];
    const state = { conversations: [], recipients: [met, there], recipients_known: true };
    chat.say("state.changed", { subscription, state });
    await settle();
    expect(chat.inner("action.dispatch").map((says) => says.payload["params"])).toMatchObject([
      { text: "to everybody" },
      { text: "one", target: { kind: "operator", key: "assistant" } },
    ]);
  });

  test("to nobody in particular goes to everybody when nobody is there", async () => {
    const chat = new Chat();
    await chat.open();
    const key = chat.core.say({ conversation_id: "c1", text: "one", target: FIRST_THERE });
    const subscription = chat.inner("state.subscribe")[0]?.payload["subscription"];
    chat.say("state.changed", { subscription, state: { conversations: [], recipients: [], recipients_known: true } });
    await settle();
    const says = chat.inner("action.dispatch").map((one) => one.payload["params"]);
    expect(says).toEqual([{ conversation_id: "c1", key, text: "one" }]);
  });

  test("goes again under the same key when the connection broke before the answer", async () => {
    const chat = new Chat();
    await chat.open();
    const key = chat.core.say({ conversation_id: "c1", text: "one" });
    expect(chat.inner("action.dispatch")).toHaveLength(1);
    chat.lose();
    await chat.world.time.advance(400);
    await chat.open();
    const again = chat.inner("action.dispatch");
    expect(again).toHaveLength(1);
    expect(again[0]?.payload["id"]).toBe(key);
  });

  test("first makes its conversation, once however often it is asked, and is then said in it in order", async () => {
    const before = new Chat();
    const place = newPlace();
    const first = before.core.say({ conversation_id: place, text: "one" });
    await before.open();
    before.core.say({ conversation_id: place, text: "two" });
    expect(before.inner("action.dispatch").map((one) => one.payload)).toEqual([
      { id: place, action: "create_conversation", params: { key: place } },
    ]);
    // The page is loaded again before the answer was there.
    const chat = new Chat(before.storage);
    await chat.open();
    const [asked] = chat.inner("action.dispatch");
    expect(asked?.payload).toEqual({ id: place, action: "create_conversation", params: { key: place } });
    chat.answer(asked?.id, { id: "c7" });
    await settle();
    expect(chat.core.made.get().get(place)).toBe("c7");
    expect(chat.core.outbox.get().map((one) => [one.conversation_id, one.text])).toEqual([["c7", "one"], ["c7", "two"]]);
    expect(chat.inner("action.dispatch")[1]?.payload).toMatchObject({ id: first, action: "say", params: { text: "one" } });
    chat.lose();
    await chat.world.time.advance(400);
    await chat.open();
    expect(chat.inner("action.dispatch").map((one) => one.payload["action"])).toEqual(["say"]);
  });

  test("waits for the server to make its conversation no longer than that is away", async () => {
    const chat = new Chat();
    await chat.open();
    chat.core.say({ conversation_id: newPlace(), text: "one" });
    const subscription = chat.inner("state.subscribe")[0]?.payload["subscription"];
    const stands = (state: string) =>
      chat.say("state.changed", { subscription, state: { conversations: [], connection: { state } } });
    stands("offline");
    chat.refuse(chat.inner("action.dispatch")[0]?.id, "connection_lost");
    await settle();
    expect(chat.inner("action.dispatch")).toHaveLength(1);
    stands("online");
    expect(chat.inner("action.dispatch")).toHaveLength(2);
  });

  test("is kept when refused, until tried again or discarded, also when the storage has become full", async () => {
    const chat = new Chat();
    await chat.open();
    const key = chat.core.say({ conversation_id: "c1", text: "one" });
    chat.storage.full = true;
    chat.refuse(chat.inner("action.dispatch")[0]?.id, "limit_exceeded");
    await settle();
    chat.core.reloadOutbox();
    expect(chat.core.outbox.get()[0]).toMatchObject({ key, state: "refused", code: "limit_exceeded" });
    chat.core.again(key);
    expect(chat.inner("action.dispatch")).toHaveLength(2);
    chat.refuse(chat.inner("action.dispatch")[1]?.id, "limit_exceeded");
    await settle();
    chat.core.discard(key);
    expect(chat.core.outbox.get()).toEqual([]);
  });

  test("is not accepted when the browser has no room for it", () => {
    const chat = new Chat();
    chat.storage.full = true;
    expect(() => chat.core.say({ conversation_id: "c1", text: "one" })).toThrow(expect.objectContaining({ code: "storage_unavailable" }));
    expect(chat.core.outbox.get()).toEqual([]);
  });

  test.each([
    ["letters", "a".repeat(2_000_000)],
    ["letters of three bytes", "字".repeat(90_000)],
    ["characters that are escaped", "\u0001".repeat(50_000)],
  ])("is not accepted when it is too long: %s", async (_, text) => {
    const chat = new Chat();
    await chat.open();
    expect(() => chat.core.say({ conversation_id: "c1", text })).toThrow(expect.objectContaining({ code: "limit_exceeded" }));
    expect(chat.core.outbox.get()).toEqual([]);
    expect(chat.storage.length).toBe(0);
    expect(chat.inner("action.dispatch")).toEqual([]);
  });

  test("and lies here too long from before is refused and holds nothing back, also tried again", async () => {
    const storage = new FakeStorage();
    const old = { key: "say_old", conversation_id: "c1", text: "a".repeat(2_000_000), created_at: "1970-01-01T00:00:00.000Z" };
    storage.setItem("lineloop.outbox.say_old", JSON.stringify({ ...old, state: "waiting", number: 1 }));
    const chat = new Chat(storage);
    expect(chat.core.outbox.get()).toMatchObject([{ key: "say_old", state: "refused", code: "limit_exceeded" }]);
    await chat.open();
    chat.core.again("say_old");
    const next = chat.core.say({ conversation_id: "c1", text: "next" });
    expect(chat.inner("action.dispatch").map((say) => say.payload["id"])).toEqual([next]);
    expect(chat.core.outbox.get()[0]).toMatchObject({ key: "say_old", state: "refused", code: "limit_exceeded" });
    chat.core.discard("say_old");
    expect(storage.getItem("lineloop.outbox.say_old")).toBeNull();
  });

  test("waits and tries again by itself when the Runtime cannot take it just now", async () => {
    const chat = new Chat();
    await chat.open();
    chat.core.say({ conversation_id: "c1", text: "one" });
    chat.core.say({ conversation_id: "c2", text: "other" });
    expect(chat.inner("action.dispatch")).toHaveLength(2);
    chat.refuse(chat.inner("action.dispatch")[0]?.id, "storage_unavailable");
    await chat.world.time.advance(1_000);
    expect(chat.inner("action.dispatch").map((say) => (say.payload["params"] as { text: string }).text)).toEqual([
      "one",
      "other",
      "one",
    ]);
  });

  test("in one conversation is not held back by what was refused before it", async () => {
    const chat = new Chat();
    await chat.open();
    chat.core.say({ conversation_id: "c1", text: "one" });
    chat.core.say({ conversation_id: "c1", text: "two" });
    chat.refuse(chat.inner("action.dispatch")[0]?.id, "forbidden");
    await settle();
    expect(chat.inner("action.dispatch")).toHaveLength(2);
  });
});

test("nothing is sent that is larger than a frame: the Runtime would never answer it", async () => {
  const chat = new Chat();
  const socket = await chat.open();
  const before = socket.sent.length;
  const value = "a".repeat(2_000_000);
  await expect(chat.core.dispatch("answer", { value })).rejects.toMatchObject({ code: "limit_exceeded" });
  await expect(chat.world.client.request("models.choose", { target: value })).rejects.toMatchObject({ code: "limit_exceeded" });
  expect(socket.sent).toHaveLength(before);
});

test("an action fails at once while the Runtime is gone", async () => {
  const chat = new Chat();
  chat.lose();
  await expect(chat.core.dispatch("stop_run", { message_id: "m" })).rejects.toMatchObject({ code: "connection_lost" });
});

test("an action of a page that is still connecting waits for the session, and fails when the Runtime is not there", async () => {
  const chat = new Chat();
  const made = chat.core.dispatch("create_conversation", {});
  await chat.open();
  const [asked] = chat.inner("action.dispatch");
  expect(asked?.payload).toMatchObject({ action: "create_conversation", params: {} });
  chat.answer(asked?.id, { id: "c1" });
  await expect(made).resolves.toEqual({ id: "c1" });

  const alone = new Chat();
  const lost = alone.core.dispatch("create_conversation", {});
  alone.lose();
  await expect(lost).rejects.toMatchObject({ code: "connection_lost" });
});
