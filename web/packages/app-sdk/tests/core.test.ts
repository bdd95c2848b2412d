import { describe, expect, test } from "vitest";
import { connectCore, RuntimeError, type Core, type MessagesEvent } from "../src/index.ts";
import { FakeTime, INIT, Runtime } from "./runtime.ts";

const STATE = { conversations: [], recipients: [], person: { kind: "human", key: "user/local" } };

async function connected(): Promise<{ core: Core; runtime: Runtime }> {
  const runtime = new Runtime();
  const connecting = connectCore(runtime.port, { timers: new FakeTime() });
  await runtime.welcome({ ...INIT, app_scope: "chat", state: STATE });
  return { core: await connecting, runtime };
}

describe("the session of a core app", () => {
  test("knows its state from init on and hears every change", async () => {
    const { core, runtime } = await connected();
    expect(core.app.app_scope).toBe("chat");
    expect(core.chat.state.snapshot()).toEqual(STATE);
    const { subscription } = runtime.newest("state.subscribe").payload;
    await runtime.tell("state.changed", { subscription, state: { ...STATE, recipients: [{ key: "a" }] } });
    expect(core.settings.state.snapshot()).toMatchObject({ recipients: [{ key: "a" }] });
  });

  test("a conversation begins with a snapshot, and again after a new connection", async () => {
    const { core, runtime } = await connected();
    const seen: MessagesEvent[] = [];
    const stop = core.chat.messages.subscribe("con_1", (event) => seen.push(event));
    const snapshot = async (more: boolean): Promise<void> => {
      const { subscription } = runtime.newest("messages.subscribe").payload;
      await runtime.tell("messages.snapshot", {
        subscription,
        messages: [],
        more,
        calls: [],
        sayings: [],
        processes: [],
      });
    };
    await snapshot(true);
    const { subscription: first } = runtime.newest("messages.subscribe").payload;
    await runtime.tell("messages.patch", { subscription: first, message_id: "m1", patch: { seq: 1 } });
    await runtime.reconnect();
    await runtime.welcome();
    await runtime.tell("messages.message", { subscription: first, message: { id: "m1" } });
    await snapshot(false);
    stop();
    expect(seen).toEqual([
      { type: "snapshot", messages: [], more: true, calls: [], sayings: [], processes: [] },
      { type: "patch", message_id: "m1", patch: { seq: 1 } },
      { type: "snapshot", messages: [], more: false, calls: [], sayings: [], processes: [] },
    ]);
    expect(runtime.newest("messages.subscribe").payload["conversation_id"]).toBe("con_1");
    expect(runtime.newest("messages.unsubscribe").payload).toEqual({
      subscription: runtime.newest("messages.subscribe").payload["subscription"],
    });
  });

  test.each<[string, (core: Core) => Promise<unknown>, object, unknown, unknown]>([
    [
      "messages.get",
      ({ chat }) => chat.messages.get("m1"),
      { message_id: "m1" },
      { message: { id: "m1" } },
      { id: "m1" },
    ],
    [
      "messages.list",
      ({ chat }) => chat.messages.list({ conversation_id: "c", before: 9 }),
      { conversation_id: "c", before: 9 },
      { messages: [], more: false, calls: [] },
      { messages: [], more: false, calls: [] },
    ],
    [
      "action.dispatch",
      ({ chat }) => chat.actions.dispatch("a1", "say", { conversation_id: "c", key: "k", text: "hi" }),
      { id: "a1", action: "say", params: { conversation_id: "c", key: "k", text: "hi" } },
      { key: "k", state: "pending" },
      { key: "k", state: "pending" },
    ],
    ["questions.get", ({ chat }) => chat.questions.get("q1"), { question_id: "q1" }, { id: "q1" }, { id: "q1" }],
    ["registry.list", ({ registry }) => registry.list(), {}, { apps: [] }, []],
    [
      "registry.disable",
      ({ registry }) => registry.disable("todo"),
      { app_scope: "todo" },
      { state: "pending" },
      { state: "pending" },
    ],
    [
      "registry.operation",
      ({ registry }) => registry.operation("aop_1"),
      { operation_id: "aop_1" },
      { state: "x" },
      { state: "x" },
    ],
    [
      "audit.list",
      ({ settings }) => settings.audit({ call_id: "c1" }),
      { call_id: "c1" },
      { stories: [], more: false },
      { stories: [], more: false },
    ],
  ])("%s", async (type, ask, payload, ok, wanted) => {
    const { core, runtime } = await connected();
    const asked = ask(core);
    expect(runtime.newest(type).payload).toEqual(payload);
    await runtime.answer(type, ok);
    expect(await asked).toEqual(wanted);
  });

  test("closing it ends what is under way", async () => {
    const { core, runtime } = await connected();
    const asked = core.registry.list();
    core.close();
    await expect(asked).rejects.toBeInstanceOf(RuntimeError);
    expect(runtime.closed).toBe(true);
  });
});
