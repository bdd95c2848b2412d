import { describe, expect, test } from "vitest";
import { RuntimeError, Session, type SessionOptions } from "../src/index.ts";
import { sessionDataOf, type Snapshot } from "../src/bridge/session-data.ts";
import { cases } from "./golden.ts";
import { FakeTime, INIT, Runtime, settle } from "./runtime.ts";

async function begun(options: SessionOptions = {}): Promise<{ runtime: Runtime; session: Session; time: FakeTime }> {
  const runtime = new Runtime();
  const time = new FakeTime();
  const session = new Session(runtime.port, { timers: time, ...options });
  const started = session.start({ sdk: "test" });
  await runtime.welcome();
  await started;
  return { runtime, session, time };
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof RuntimeError)) throw new Error("it was not refused");
  return error.code;
}

describe("a session", () => {
  test("says hello first and knows who it is from init", async () => {
    const { runtime, session, time } = await begun();
    expect(runtime.sent).toEqual([{ v: 1, id: "r/1", type: "hello", payload: { sdk: "test" } }]);
    expect(session.context).toEqual(INIT);
    expect(time.waiting).toBe(0);
  });

  test("a refused hello is told to who started it", async () => {
    const runtime = new Runtime();
    const session = new Session(runtime.port, { timers: new FakeTime() });
    const started = codeOf(session.start({ sdk: "test" }));
    await runtime.refuse("hello", "sdk_incompatible");
    expect(await started).toBe("sdk_incompatible");
    expect(() => session.context).toThrow(RuntimeError);
  });

  test("an init that never comes is not waited for without end", async () => {
    const runtime = new Runtime();
    const time = new FakeTime();
    const started = codeOf(new Session(runtime.port, { timers: time, timeoutMs: 100 }).start({ sdk: "test" }));
    await runtime.answer("hello", {});
    await time.pass(101);
    expect(await started).toBe("deadline_exceeded");
  });

  test("each request gets its own answer, whatever the order", async () => {
    const { runtime, session } = await begun();
    const first = session.request("session.get");
    const second = codeOf(session.request("session.replace", { data: {}, expected_revision: 1 }));
    await runtime.refuse("session.replace", "session_data_revision_conflict", { revision: 2 });
    await runtime.answer("session.get", { data: null, revision: 0 });
    expect(await second).toBe("session_data_revision_conflict");
    expect(await first).toEqual({ data: null, revision: 0 });
  });

  test("a request without an answer ends, and a late answer is nobody's", async () => {
    const { runtime, session, time } = await begun({ timeoutMs: 5_000 });
    const asked = codeOf(session.request("session.get"));
    await time.pass(5_000);
    expect(await asked).toBe("deadline_exceeded");
    await runtime.answer("session.get", { data: null, revision: 0 });
    expect(time.waiting).toBe(0);
  });

  test("frames that are not valid are counted and passed over", async () => {
    const { runtime, session } = await begun();
    await runtime.text("no JSON");
    await runtime.text('{"v":1,"type":"tool.complete","payload":{"call_id":"c","result":1}}');
    await runtime.text('{"v":1,"type":"state.changed","payload":{"state":1,"more":1}}');
    expect(session.refused).toBe(3);
  });

  test("a listener that throws harms nobody else", async () => {
    const faults: unknown[] = [];
    const { runtime, session } = await begun({ onFault: (error) => faults.push(error) });
    const heard: unknown[] = [];
    session.on("state.changed", () => {
      throw new Error("on purpose");
    });
    session.on("state.changed", async () => Promise.reject(new Error("later")));
    const stop = session.on("state.changed", ({ state }) => heard.push(state));
    await runtime.tell("state.changed", { state: 1 });
    stop();
    await runtime.tell("state.changed", { state: 2 });
    expect(heard).toEqual([1]);
    expect(faults.map((error) => (error as Error).message)).toEqual(["on purpose", "later", "on purpose", "later"]);
  });

  test("after a new connection it says hello and subscribes again; what was asked before is lost", async () => {
    const { runtime, session } = await begun();
    const heard: unknown[] = [];
    const stop = session.subscribe("inbox", { types: ["a"] }, (_, { message }) => heard.push(message));
    const old = runtime.newest("inbox.subscribe").payload["subscription"];
    const asked = codeOf(session.request("session.get"));
    await runtime.reconnect();
    expect(await asked).toBe("connection_lost");
    await runtime.welcome({ ...INIT, app_session_id: "ses_2" });
    const { subscription, ...rest } = runtime.newest("inbox.subscribe").payload;
    expect(rest).toEqual({ types: ["a"] });
    await runtime.tell("inbox.message", { subscription: old, message: { n: 1 } });
    await runtime.tell("inbox.message", { subscription, message: { n: 2 } });
    stop();
    await runtime.tell("inbox.message", { subscription, message: { n: 3 } });
    expect(heard).toEqual([{ n: 2 }]);
    expect(runtime.newest("inbox.unsubscribe").payload).toEqual({ subscription });
    expect(session.context.app_session_id).toBe("ses_2");
  });

  test("when it ends, whoever waits is told and nothing is sent any more", async () => {
    const { runtime, session, time } = await begun();
    const asked = codeOf(session.request("session.get"));
    await runtime.end();
    expect(await asked).toBe("connection_lost");
    expect(await codeOf(session.request("session.get"))).toBe("connection_lost");
    session.tell("diagnostics.log", { level: "info", message: "after the end" });
    expect(runtime.sent.map(({ type }) => type)).toEqual(["hello", "session.get"]);
    expect([runtime.closed, time.waiting]).toEqual([true, 0]);
  });
});

interface Step {
  readonly changed?: number;
  readonly old?: number;
  readonly get?: number;
  readonly init?: true;
}

interface Case {
  readonly name: string;
  readonly steps: readonly Step[];
  readonly heard: readonly number[];
  readonly asked: readonly string[];
}

describe("session data", () => {
  test.each(cases<Case>("session_data/subscriptions.json"))("[D43] $name", async ({ steps, heard, asked }) => {
    const { runtime, session } = await begun();
    const seen: Snapshot[] = [];
    sessionDataOf(session).subscribe((snapshot) => seen.push(snapshot));
    const first = runtime.newest("session.subscribe").payload["subscription"];
    await runtime.answer("session.subscribe", {});
    for (const step of steps) {
      const newest = runtime.newest("session.subscribe").payload["subscription"];
      const change = async (subscription: unknown, n: number): Promise<void> =>
        runtime.tell("session.changed", { subscription, data: { n }, revision: n });
      if (step.changed !== undefined) await change(newest, step.changed);
      if (step.old !== undefined) await change(first, step.old);
      if (step.get !== undefined) await runtime.answer("session.get", { data: { n: step.get }, revision: step.get });
      if (step.init === true) await runtime.tell("init", INIT);
    }
    expect(seen).toEqual(heard.map((n) => ({ data: { n }, revision: n })));
    expect(runtime.sent.slice(1).map(({ type }) => type)).toEqual(asked);
  });

  test("a stopped listener hears nothing more, also when it stops while data are read again", async () => {
    const { runtime, session } = await begun();
    const seen: number[] = [];
    const stop = sessionDataOf(session).subscribe(({ revision }) => seen.push(revision));
    const change = async (revision: number): Promise<void> => {
      const { subscription } = runtime.newest("session.subscribe").payload;
      await runtime.tell("session.changed", { subscription, data: null, revision });
    };
    await change(0);
    await change(5);
    stop();
    await runtime.answer("session.get", { data: {}, revision: 5 });
    await settle();
    expect(seen).toEqual([0]);
    expect(runtime.sent.filter(({ type }) => type === "session.subscribe")).toHaveLength(1);
  });

  test("two new connections in a row make one new subscription", async () => {
    const { runtime, session } = await begun();
    const seen: number[] = [];
    sessionDataOf(session).subscribe(({ revision }) => seen.push(revision));
    const { subscription: first } = runtime.newest("session.subscribe").payload;
    await runtime.tell("session.changed", { subscription: first, data: null, revision: 0 });
    await runtime.reconnect();
    await runtime.welcome();
    await runtime.reconnect();
    await runtime.welcome();
    await runtime.answer("session.get", { data: { n: 3 }, revision: 3 });
    const { subscription } = runtime.newest("session.subscribe").payload;
    await runtime.tell("session.changed", { subscription, data: { n: 4 }, revision: 4 });
    expect(seen).toEqual([0, 3, 4]);
    expect(runtime.sent.filter(({ type }) => type === "session.subscribe")).toHaveLength(2);
  });

  test("a replace carries data and revision, a conflict tells the current one", async () => {
    const { runtime, session } = await begun();
    const data = sessionDataOf(session);
    const saved = data.replace({ data: { a: 1 }, expected_revision: 4 });
    expect(runtime.newest("session.replace").payload).toEqual({ data: { a: 1 }, expected_revision: 4 });
    await runtime.refuse("session.replace", "session_data_revision_conflict", { revision: 7 });
    await expect(saved).rejects.toMatchObject({ code: "session_data_revision_conflict", context: { revision: 7 } });
  });
});
