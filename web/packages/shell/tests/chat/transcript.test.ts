// What the model of a conversation makes of what the Runtime tells, in which order it ever comes.

import { emptyContent } from "@lineloop/ui-model";
import { describe, expect, test } from "vitest";
import { Transcript } from "../../src/chat/model/transcript.ts";
import { detailTarget, readable } from "../../src/chat/model/wire.ts";
import { phaseOf, remainingOf } from "../../src/chat/model/call-words.ts";
import { stretchesOf, subjectOf, workOn } from "../../src/chat/model/process.ts";
import { ASSISTANT, FakeCore, Later, PERSON, ROOT, block, call, held, message, refusal, said, stamp, time } from "./fake-core.ts";

/** Frames that come when the test says so. */
function frames() {
  const due: (() => void)[] = [];
  return { next: (run: () => void) => due.push(run), run: () => due.splice(0).forEach((work) => work()), due };
}

function opened(id = ROOT, core = new FakeCore()) {
  const clock = frames();
  const transcript = new Transcript(core, id, clock.next);
  const close = transcript.open();
  const rows = () => transcript.view.get().pages.flatMap((page) => page.rows);
  const text = (messageId: string) => {
    const known = transcript.messages.get(messageId);
    return known === undefined ? undefined : readable(known.content);
  };
  return { core, transcript, close, clock, rows, text, ids: () => rows().map((row) => row.id) };
}

const settled = () => new Promise((resolve) => setTimeout(resolve));
const PROCESS = "conv_p";
const run = (parts: object = {}) =>
  message(1, {
    id: "run_1",
    key: "run_1",
    conversation_id: PROCESS,
    actor: { kind: "harness", key: "run-1" },
    on_behalf_of: ASSISTANT,
    purpose: "run",
    status: "streaming",
    content: { ...emptyContent(), meta: { input_id: "msg_1" }, blocks: [block("text", "wor")] },
    ...parts,
  });

describe("a transcript", () => {
  test("changes at once and tells it once per frame", () => {
    const { core, transcript, clock, text } = opened();
    core.snapshot({ messages: [message(1, { status: "streaming" })] });
    clock.run();
    let told = 0;
    transcript.messages.subscribe("msg_1", () => (told += 1));
    for (let seq = 1; seq <= 50; seq += 1) core.append("msg_1", seq, "x");
    expect([clock.due.length, told]).toEqual([1, 0]);
    clock.run();
    expect([told, text("msg_1")]).toEqual([1, `message 1${"x".repeat(50)}`]);
  });

  test("tells one message's listeners only, and keeps the rows, while it grows", () => {
    const { core, transcript, clock } = opened();
    core.snapshot({ messages: [message(1), message(2, { status: "streaming" })] });
    clock.run();
    const before = transcript.view.get();
    let told = 0;
    transcript.messages.subscribe("msg_1", () => (told += 1));
    core.append("msg_2", 1, " more");
    clock.run();
    expect([told, transcript.view.get() === before]).toEqual([0, true]);
  });

  test("a patch that is known changes nothing, one that skips asks for the whole message, once", async () => {
    const { core, clock, text } = opened();
    const whole = new Later();
    core.answers.set("messages.get", () => whole.promise);
    core.snapshot({ messages: [message(1, { status: "streaming" })] });
    core.append("msg_1", 1, "a");
    core.append("msg_1", 1, "a");
    core.append("msg_1", 3, "c");
    core.append("msg_1", 4, "d");
    core.append("msg_9", 1, "unknown");
    expect(core.asks("messages.get")).toEqual([{ message_id: "msg_1" }, { message_id: "msg_9" }]);
    whole.answer({ message: message(1, { status: "streaming", revision: 4, blocks: [block("text", "abcd")] }) as never });
    await settled();
    core.append("msg_1", 5, "e");
    clock.run();
    expect(text("msg_1")).toBe("abcde");
  });

  test("[L179] nothing that was meant for a closed opening appears, and its stream has ended", async () => {
    const core = new FakeCore();
    const late = new Later();
    core.answers.set("messages.list", () => late.promise);
    core.answers.set("messages.get", () => late.promise);
    const first = opened(ROOT, core);
    core.snapshot({ messages: [message(60, { status: "streaming" })], more: true });
    first.clock.run();
    const follower = [...core.followings][0];
    void first.transcript.loadOlder();
    core.append("msg_60", 9, "gap");
    first.close();
    const second = opened("conv_b", core);
    core.snapshot({ messages: [message(1, { id: "b_1", conversation_id: "conv_b" })] }, "conv_b");
    second.close();
    const third = opened(ROOT, core);
    core.snapshot({ messages: [message(60)] });
    late.answer({ messages: [message(10)] as never, more: false, message: message(60, { revision: 9 }) as never });
    follower?.onEvent("messages.message", { message: message(61) as never });
    await settled();
    for (const one of [first, second, third]) one.clock.run();
    expect(third.ids()).toEqual(["msg_60"]);
    expect(second.ids()).toEqual(["b_1"]);
    expect(first.ids()).toEqual(["msg_60"]);
    expect(core.followings.size).toBe(1);
  });

  test("[L180] opened, closed and opened again it follows once; a head is filled by the snapshot of its stream", () => {
    const core = new FakeCore();
    const clock = frames();
    const transcript = new Transcript(core, ROOT, clock.next);
    transcript.open()();
    transcript.open();
    expect(core.followings.size).toBe(1);
    const head = message(1, { status: "streaming", content: emptyContent() });
    core.snapshot({ messages: [head] });
    core.message({ ...head, revision: 7, content: { ...emptyContent(), blocks: [block("text", "so far")] } });
    core.append("msg_1", 8, " and on");
    clock.run();
    expect(readable(transcript.messages.get("msg_1")?.content ?? emptyContent())).toBe("so far and on");
  });

  test("[L185] blocks with the same id in two messages stay apart, and an older snapshot changes nothing", () => {
    const { core, clock, text } = opened();
    core.snapshot({ messages: [1, 2].map((ordinal) => message(ordinal, { status: "streaming" })) });
    core.append("msg_1", 1, " one");
    core.append("msg_2", 1, " two");
    core.message(message(1, { status: "streaming", revision: 0, blocks: [block("text", "stale")] }));
    clock.run();
    expect([text("msg_1"), text("msg_2")]).toEqual(["message 1 one", "message 2 two"]);
  });

  test("[L194] the end of one leaves the other live, and what failed or was stopped stays so", () => {
    const { core, transcript, clock, text } = opened();
    const live = [1, 2, 3].map((ordinal) => message(ordinal, { status: "streaming" }));
    core.snapshot({ messages: live });
    core.message(message(1, { status: "failed", revision: 0 }));
    core.message(message(2, { status: "cancelled", revision: 0 }));
    core.snapshot({ messages: live });
    core.append("msg_3", 1, "!");
    clock.run();
    expect([1, 2, 3].map((ordinal) => transcript.messages.get(`msg_${ordinal}`)?.status)).toEqual([
      "failed",
      "cancelled",
      "streaming",
    ]);
    expect(text("msg_3")).toBe("message 3!");
  });

  test("after a reconnect it asks for the streams that the snapshot no longer carries", async () => {
    const { core, clock, transcript } = opened();
    core.answers.set("messages.get", () => ({ message: message(1, { revision: 4 }) as never }));
    core.snapshot({ messages: [message(1, { status: "streaming" }), message(2)] });
    core.snapshot({ messages: [message(2)] });
    expect(core.asks("messages.get")).toEqual([{ message_id: "msg_1" }]);
    await settled();
    clock.run();
    expect(transcript.messages.get("msg_1")?.status).toBe("completed");
  });

  test("a snapshot that leaves a gap replaces what was known; one that overlaps keeps the older", () => {
    const { core, transcript, clock, ids } = opened();
    core.snapshot({ messages: [message(1), message(2)] });
    core.snapshot({ messages: [message(2), message(3)], more: true });
    clock.run();
    expect([ids(), transcript.view.get().older]).toEqual([["msg_1", "msg_2", "msg_3"], "none"]);
    core.snapshot({ messages: [message(90)], more: true });
    clock.run();
    expect([ids(), transcript.view.get().older]).toEqual([["msg_90"], "more"]);
    expect(transcript.messages.get("msg_1")).toBeUndefined();
  });

  test("pages of older messages come in above, until one shows something or there are no more", async () => {
    const { core, transcript, clock, ids } = opened();
    core.snapshot({ messages: [message(200)], more: true });
    clock.run();
    const newest = transcript.view.get().pages.at(-1);
    core.answers.set("messages.list", ({ before }) => {
      const ordinal = (before as number) - 50;
      const hidden = ordinal > 100;
      return { messages: [message(ordinal, hidden ? { purpose: "envelope" } : {})] as never, more: true };
    });
    await transcript.loadOlder();
    clock.run();
    expect(core.asks("messages.list").map((one) => one["before"])).toEqual([200, 150]);
    expect(ids()).toEqual(["msg_100", "msg_200"]);
    expect(transcript.view.get().pages.at(-1)).toBe(newest);
    core.answers.set("messages.list", () => Promise.reject(new Error("unexpected")));
    await expect(transcript.loadOlder()).rejects.toThrow("unexpected");
  });

  test("reaches a message that is far back, as far as it takes and no further", async () => {
    const { core, transcript, clock, rows } = opened();
    core.snapshot({ messages: [message(200)], more: true });
    core.answers.set("messages.get", ({ message_id }) => ({ message: message(Number(String(message_id).slice(4))) as never }));
    core.answers.set("messages.list", ({ before }) => {
      const first = Number(before) - 50;
      return { messages: Array.from({ length: 50 }, (_, place) => message(first + place)) as never, more: true };
    });
    expect(await transcript.reach("msg_120")).toBe(true);
    clock.run();
    expect([rows()[0]?.id, core.asks("messages.list").length]).toEqual(["msg_100", 2]);
    expect(await transcript.reach("msg_150")).toBe(true);
    core.answers.set("messages.list", () => Promise.reject(refusal("connection_lost")));
    expect(await transcript.reach("msg_20")).toBe(false);
    core.answers.set("messages.get", () => Promise.reject(refusal("message_not_found")));
    expect(await transcript.reach("msg_7")).toBe(false);
    clock.run();
    expect([transcript.view.get().older, core.asks("messages.list").length]).toEqual(["failed", 3]);
  });

  test("traffic between programs has no row", () => {
    const { core, clock, ids } = opened();
    core.snapshot({ messages: [said(1, "hi"), message(2, { purpose: "envelope" }), message(3, { purpose: "inventory" })] });
    clock.run();
    expect(ids()).toEqual(["msg_1"]);
  });
});

describe("what the person says", () => {
  test("stands there from the first moment under one row key until it is a message", () => {
    const { core, transcript, clock, rows } = opened();
    core.snapshot();
    const key = core.say({ conversation_id: ROOT, text: "hello" });
    const states: unknown[] = [];
    const look = () => {
      clock.run();
      states.push([rows().map((row) => row.key), rows()[0]?.kind, transcript.sayings.get(key)?.state]);
    };
    look();
    core.discard(key);
    look();
    core.tell("saying", { saying: held(key, { state: "sent" }) });
    look();
    core.message(said(1, "hello", { key }));
    look();
    expect(states).toEqual([
      [[`said:${key}`], "saying", "waiting"],
      [[`said:${key}`], "saying", "pending"],
      [[`said:${key}`], "saying", "sent"],
      [[`said:${key}`], "message", undefined],
    ]);
  });

  test("[L182] stays in the conversation it was said in", () => {
    const core = new FakeCore();
    const [a, b] = [opened(ROOT, core), opened("conv_b", core)];
    core.snapshot();
    core.snapshot({}, "conv_b");
    core.say({ conversation_id: ROOT, text: "for a" });
    a.clock.run();
    b.clock.run();
    expect([a.rows().length, b.rows().length]).toEqual([1, 0]);
  });
});

describe("a run at work", () => {
  test("stands at the end while it works, and its answer takes its row", () => {
    const { core, transcript, clock, rows } = opened();
    core.snapshot({ messages: [said(1, "do it"), run()] });
    clock.run();
    expect(rows().map((row) => [row.kind, row.key])).toEqual([
      ["message", "said:k1"],
      ["draft", "answer:msg_1"],
    ]);
    expect(transcript.view.get().running).toEqual(["run_1"]);
    core.message(run({ status: "completed", revision: 3, updated_at: stamp(5) }));
    core.message(message(6, { reply_to_id: "msg_1" }));
    clock.run();
    expect(rows().map((row) => [row.kind, row.key])).toEqual([
      ["message", "said:k1"],
      ["message", "answer:msg_1"],
    ]);
    expect(transcript.view.get().running).toEqual([]);
  });

  test("what a stopped one had said stays, where it ended", () => {
    const { core, clock, ids } = opened();
    core.snapshot({ messages: [said(1, "do it"), run()] });
    core.message(run({ status: "cancelled", revision: 3, updated_at: stamp(5) }));
    core.message(message(6, { reply_to_id: "msg_1", status: "cancelled" }));
    core.message(said(7, "next"));
    clock.run();
    expect(ids()).toEqual(["msg_1", "run_1", "msg_6", "msg_7"]);
  });

  test("one that was stopped before it said anything leaves no row but its answer's", () => {
    const { core, clock, ids } = opened();
    const tool = { id: "t", type: "tool", name: "ask", state: "dispatched" };
    const content = { ...emptyContent(), meta: { input_id: "msg_1" }, blocks: [tool] };
    core.snapshot({ messages: [said(1, "do it"), run({ content })] });
    core.message(run({ content, status: "cancelled", revision: 3, updated_at: stamp(5) }));
    core.message(message(6, { reply_to_id: "msg_1", status: "cancelled" }));
    clock.run();
    expect(ids()).toEqual(["msg_1", "msg_6"]);
  });

  test("is stopped when its message says so, not when Stop was pressed", async () => {
    const { core, transcript, clock } = opened();
    core.snapshot({ messages: [said(1, "do it"), run()] });
    clock.run();
    await transcript.stop("run_1");
    await transcript.stop("run_1");
    clock.run();
    expect(core.asks("stop_run")).toEqual([{ message_id: "run_1" }]);
    expect(transcript.messages.get("run_1")?.status).toBe("streaming");
    expect(transcript.stops.get("run_1")).toEqual({ state: "asked" });
    core.message(run({ status: "cancelled", revision: 2 }));
    clock.run();
    expect(transcript.messages.get("run_1")?.status).toBe("cancelled");
    expect(transcript.stops.get("run_1")).toBeUndefined();
    expect(transcript.announcement.get()).toEqual({ kind: "stopped", who: "assistant" });
  });

  test("a Stop that could not be asked for says so and can be pressed again", async () => {
    const { core, transcript } = opened();
    core.snapshot({ messages: [run()] });
    const later = new Later();
    core.answers.set("stop_run", () => later.promise);
    const asked = transcript.stop("run_1");
    later.refuse("connection_lost");
    await asked;
    expect(transcript.stops.get("run_1")).toEqual({ state: "failed", code: "connection_lost" });
    core.answers.delete("stop_run");
    await transcript.stop("run_1");
    expect(core.asks("stop_run")).toHaveLength(2);
  });
});

describe("calls", () => {
  test("stand under what the person said, whether or not their run is known", () => {
    const { core, transcript, clock } = opened();
    const known = call({ call_id: "a", run_message_id: "run_1" });
    const unknown = call({ call_id: "b", run_message_id: "run_0", accepted_at: stamp(8) });
    core.snapshot({ messages: [said(1, "tea"), said(7, "more"), run()], calls: [unknown, known] });
    clock.run();
    expect([transcript.causes.get("msg_1"), transcript.causes.get("msg_7")]).toEqual([["a"], ["b"]]);
  });

  test("run only after their receipt says so, and count down to their end", () => {
    const started = { stage: "started", sequence: 2, at: stamp(3) };
    const operating = call({ state: "operating", ends_at: stamp(63) });
    expect([phaseOf(operating), remainingOf(operating, time(3))]).toEqual(["working", null]);
    const running = { ...operating, receipts: [started] };
    expect([phaseOf(running), remainingOf(running, time(3))]).toEqual(["running", 60_000]);
    const begun = { ...running, operation: { started_at: stamp(3) } };
    expect([remainingOf(begun, time(2)), remainingOf(begun, time(4))]).toEqual([60_000, 59_000]);
    expect(phaseOf(call({ state: "waiting_foreground", receipts: [{ ...started, stage: "starting" }] }))).toBe("foreground");
    const outcome = (name: string, receipts = [started]) => phaseOf(call({ state: "succeeded", receipts, result: { outcome: name } }));
    expect([outcome("completed"), outcome("interrupted"), outcome("not_started", [])]).toEqual(["done", "ended_early", "not_started"]);
  });
});

describe("the work behind a message", () => {
  test("[L196] belongs to the target, the sender, the owner of a role; not to a broadcast or a harness", () => {
    const role = { kind: "operator/research/writer", key: "w1" };
    const harness = { kind: "harness", key: "run-9" };
    expect(detailTarget(said(1, "a"))).toBe("assistant");
    expect(detailTarget(said(1, "a", { target: null }))).toBeNull();
    expect(detailTarget(message(2, { target: PERSON }))).toBe("assistant");
    expect(detailTarget(message(2, { actor: role, target: PERSON }))).toBe("research");
    expect(detailTarget(message(2, { actor: role, target: ASSISTANT }))).toBe("assistant");
    expect(detailTarget(message(2, { actor: harness, target: PERSON }))).toBeNull();
  });

  test("is what names the input, and stands side by side where it overlaps in time", () => {
    const input = said(1, "do it");
    const answer = message(9, { reply_to_id: "msg_1" });
    const writer = { kind: "operator/assistant/writer", key: "w" };
    const first = run({ created_at: stamp(2), updated_at: stamp(6), status: "completed" });
    const beside = run({ id: "run_2", on_behalf_of: writer, created_at: stamp(4), updated_at: stamp(7), status: "completed" });
    const after = run({ id: "run_3", created_at: stamp(8), updated_at: stamp(9), status: "completed" });
    const other = run({ id: "run_4", content: { ...emptyContent(), meta: { input_id: "msg_5" } } });
    expect(subjectOf(answer, (id) => (id === "msg_1" ? input : undefined))).toBe(input);
    const work = workOn(input, null, [other, after, beside, first]);
    const shape = stretchesOf(work).map(({ columns }) => columns.map(({ messages }) => messages.map((one) => one.id)));
    expect(shape).toEqual([[["run_1"], ["run_2"]], [["run_3"]]]);
  });
});
