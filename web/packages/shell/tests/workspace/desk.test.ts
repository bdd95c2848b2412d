import { expect, test } from "vitest";
import { newPlace } from "../../src/runtime/chat-core.ts";
import { openChat } from "../../src/runtime/chat-session.ts";
import { Desk } from "../../src/workspace/desk.ts";
import { FakeStorage, settle, World } from "../world.ts";

const INSTANCE = { instance_id: "i1", conversation_id: "c1", app_scope: "pomodoro", title: "Pomodoro" };

class Page extends World {
  readonly storage = new FakeStorage();
  readonly chat = openChat(this.client, this.storage, this.time);
  readonly desk = new Desk(this.client, this.chat, this.storage);

  constructor() {
    super();
    this.access.stored = "kept";
    this.client.start();
  }

  async begin(conversations: readonly string[] = ["c1", "c2"]): Promise<void> {
    const socket = await this.welcome();
    socket.answer(socket.sent.find((frame) => frame.type === "session.open")?.id, { session: "s" });
    await settle();
    await this.list(conversations);
  }
  async list(conversations: readonly string[]): Promise<void> {
    const state = { conversations: conversations.map((id) => ({ id, title: id, unread: 0 })), recipients: [] };
    const text = JSON.stringify({ v: 1, type: "init", payload: { state } });
    this.socket.event("frame", { session: "s", text });
    await settle();
  }
  project(foreground: string | null): void {
    this.socket.event("workspace", {
      lease: true,
      foreground: foreground === null ? null : { conversation_id: "c1", instance_id: foreground },
      conversations: { c1: { stack: [INSTANCE, { ...INSTANCE, instance_id: "i2" }] } },
      closing: [],
    });
  }
  intents(): unknown[] {
    return this.socket.sent.filter((frame) => frame.type === "intent").map((frame) => frame.payload);
  }
}

test("a page begins with the conversation it had, else the newest", async () => {
  const page = new Page();
  await page.begin();
  expect(page.desk.conversation.get()).toBe("c1");
  page.desk.openConversation("c2");
  const again = new Desk(page.client, page.chat, page.storage);
  expect(again.conversation.get()).toBe("c2");
});

test("a page in which first words wait for their conversation stays with them when it is listed", async () => {
  const page = new Page();
  await page.begin([]);
  page.chat.say({ conversation_id: newPlace(), text: "first words" });
  await page.list(["c1"]);
  expect(page.desk.conversation.get()).toBeNull();
});

test("a conversation that is gone is left for the newest; one that was just made is not", async () => {
  const page = new Page();
  await page.begin();
  page.desk.openConversation("c9");
  await page.list(["c1", "c2"]);
  expect(page.desk.conversation.get()).toBe("c9");
  await page.list(["c9", "c1"]);
  await page.list(["c2"]);
  expect(page.desk.conversation.get()).toBe("c2");
});

test("the foreground of the Runtime brings its conversation with it, once", async () => {
  const page = new Page();
  await page.begin();
  page.desk.openConversation("c2");
  page.socket.answer(page.socket.sent.at(-1)?.id, {});
  await settle();
  page.project("i1");
  expect(page.desk.conversation.get()).toBe("c1");
  expect(page.desk.shown()?.instance_id).toBe("i1");
  page.desk.openConversation("c2");
  page.socket.answer(page.socket.sent.at(-1)?.id, {});
  await settle();
  expect(page.desk.shown()).toBeNull();
  page.project("i1");
  expect(page.desk.conversation.get()).toBe("c2");
  page.project("i2");
  expect(page.desk.conversation.get()).toBe("c1");
});

test("going to a conversation is told to the Runtime as what it is", async () => {
  const page = new Page();
  await page.begin();
  page.desk.openConversation("c2");
  page.desk.openConversation("c2");
  page.desk.showChat();
  expect(page.intents()).toEqual([
    { kind: "open_conversation", conversation_id: "c2" },
    { kind: "show_chat", conversation_id: "c2" },
  ]);
});

test("a conversation that was chosen while the Runtime was gone is told when it is back, and kept until then", async () => {
  const page = new Page();
  await page.begin();
  page.socket.onclose?.({ code: 1006 });
  page.desk.openConversation("c2");
  await page.time.advance(400);
  await page.welcome();
  expect(page.intents()).toEqual([{ kind: "open_conversation", conversation_id: "c2" }]);
  page.project("i1");
  expect(page.desk.conversation.get()).toBe("c2");
});

test("a hidden or lost page tells no intent by itself", async () => {
  const page = new Page();
  await page.begin();
  page.project("i1");
  page.socket.onclose?.({ code: 1006 });
  await page.time.advance(400);
  await page.welcome();
  expect(page.intents()).toEqual([]);
});

test("an app that is opened without any conversation gets one first", async () => {
  const page = new Page();
  await page.begin([]);
  const launched = page.desk.launch("pomodoro", "Pomodoro");
  expect(page.desk.launching.get()).toBe("pomodoro");
  const frame = page.socket.sent.findLast((sent) => sent.type === "frame");
  const asked = JSON.parse(String(frame?.payload["text"])) as { id: string; payload: unknown };
  expect(asked.payload).toMatchObject({ action: "create_conversation", params: { name: "Pomodoro", key: expect.stringMatching(/^place_/) } });
  const text = JSON.stringify({ v: 1, reply_to: asked.id, ok: { id: "c7" } });
  page.socket.event("frame", { session: "s", text });
  await settle();
  const last = page.socket.sent.at(-1);
  expect(last?.payload).toEqual({ app_scope: "pomodoro", conversation_id: "c7" });
  page.socket.answer(last?.id, { instance_id: "i1" });
  await launched;
  expect(page.desk.launching.get()).toBeNull();
});
