import { describe, expect, test } from "vitest";
import { connect, type Page, type PageMessage, type PagePort } from "../src/connect.ts";
import { RuntimeError, type Surface } from "../src/index.ts";
import { FakeTime, INIT, settle } from "./runtime.ts";

const SHELL = "http://127.0.0.1:4000";
const STATE = { instance_state: "active", operation: null, language: "en" };

interface Sent {
  readonly id?: string;
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

class FakePort implements PagePort {
  onmessage: PagePort["onmessage"] = null;
  readonly sent: Sent[] = [];
  closed = false;

  postMessage(message: string): void {
    this.sent.push(JSON.parse(message) as Sent);
  }

  close(): void {
    this.closed = true;
  }

  async give(data: unknown): Promise<void> {
    this.onmessage?.({ data });
    await settle();
  }

  async tell(type: string, payload: object = {}): Promise<void> {
    await this.give(JSON.stringify({ v: 1, type, payload }));
  }

  async answer(type: string, answer: object): Promise<void> {
    const asked = this.sent.findLast((frame) => frame.type === type);
    await this.give(JSON.stringify({ v: 1, reply_to: asked?.id, ...answer }));
  }
}

/** A page as the Runtime makes it, in a frame of a shell. */
class FakePage implements Page {
  readonly posted: [message: unknown, origin: string][] = [];
  readonly parent = { postMessage: (message: unknown, origin: string) => void this.posted.push([message, origin]) };
  readonly listeners = new Set<(event: PageMessage) => void>();
  readonly document;

  constructor(
    attributes: Readonly<Record<string, string>> = { "data-lineloop-nonce": "n1", "data-lineloop-shell": SHELL },
  ) {
    this.document = { documentElement: { getAttribute: (name: string) => attributes[name] ?? null } };
  }

  addEventListener(_: "message", listener: (event: PageMessage) => void): void {
    this.listeners.add(listener);
  }

  removeEventListener(_: "message", listener: (event: PageMessage) => void): void {
    this.listeners.delete(listener);
  }

  async post(event: Partial<PageMessage>): Promise<void> {
    const whole = { source: this.parent, origin: SHELL, data: { lineloop: 1, nonce: "n1" }, ports: [], ...event };
    for (const listener of [...this.listeners]) listener(whole);
    await settle();
  }
}

async function connected(): Promise<{ surface: Surface; port: FakePort; page: FakePage; time: FakeTime }> {
  const [page, port, time] = [new FakePage(), new FakePort(), new FakeTime()];
  const connecting = connect({ timers: time }, page);
  await page.post({ ports: [port] });
  await port.answer("hello", { ok: {} });
  await port.tell("init", { ...INIT, instance_id: "ins_1", state: STATE });
  return { surface: await connecting, port, page, time };
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof RuntimeError)) throw new Error("it was not refused");
  return error.code;
}

describe("the handshake of a surface", () => {
  test("posts its nonce once, to the shell only, and takes the port that comes back", async () => {
    const { surface, port, page, time } = await connected();
    expect(page.posted).toEqual([[{ lineloop: 1, nonce: "n1" }, SHELL]]);
    expect(port.sent[0]).toMatchObject({ type: "hello", payload: { nonce: "n1" } });
    expect(surface.app.instance_id).toBe("ins_1");
    expect([page.listeners.size, time.waiting]).toEqual([0, 1]);
  });

  test.each<[string, (page: FakePage) => Partial<PageMessage>]>([
    ["another window than the parent", () => ({ source: {} })],
    ["another origin than the shell's", () => ({ origin: "null" })],
    ["another nonce", () => ({ data: { lineloop: 1, nonce: "n2" } })],
    ["another version", () => ({ data: { lineloop: 2, nonce: "n1" } })],
    ["no object", () => ({ data: "lineloop" })],
    ["nothing", () => ({ data: null })],
    ["two ports", () => ({ ports: [new FakePort(), new FakePort()] })],
    ["no port", () => ({ ports: [] })],
  ])("does not look at a message of %s", async (_, wrong) => {
    const [page, port] = [new FakePage(), new FakePort()];
    const connecting = connect({ timers: new FakeTime() }, page);
    const false_port = new FakePort();
    await page.post({ ports: [false_port], ...wrong(page) });
    expect([false_port.sent, page.listeners.size]).toEqual([[], 1]);
    await page.post({ ports: [port] });
    await port.answer("hello", { ok: {} });
    await port.tell("init", INIT);
    expect((await connecting).app.app_scope).toBe("probe");
  });

  test("a document has one session, however often it connects", async () => {
    const page = new FakePage();
    const [first, second] = [connect({ timers: new FakeTime() }, page), connect({}, page)];
    expect(second).toBe(first);
    expect(page.posted).toHaveLength(1);
  });

  test("a page that no Runtime launched cannot connect", async () => {
    expect(await codeOf(connect({}, new FakePage({})))).toBe("bridge_invalid");
    const alone = new FakePage();
    Object.defineProperty(alone, "parent", { value: alone });
    expect(await codeOf(connect({}, alone))).toBe("bridge_invalid");
  });

  test("a shell that does not answer is not waited for without end", async () => {
    const [page, time] = [new FakePage(), new FakeTime()];
    const connecting = codeOf(connect({ timers: time }, page));
    await time.pass(30_000);
    expect(await connecting).toBe("deadline_exceeded");
    expect(page.listeners.size).toBe(0);
  });

  test("a refused hello closes the port", async () => {
    const [page, port] = [new FakePage(), new FakePort()];
    const connecting = codeOf(connect({ timers: new FakeTime() }, page));
    await page.post({ ports: [port] });
    await port.answer("hello", { error: { code: "sdk_incompatible", message: "no", context: {} } });
    expect(await connecting).toBe("sdk_incompatible");
    expect(port.closed).toBe(true);
  });
});

describe("what a surface is told", () => {
  test("the newest state first, from init and from every projection", async () => {
    const { surface, port } = await connected();
    const seen: unknown[] = [];
    const stop = surface.state.subscribe((state) => seen.push(state.instance_state));
    const { subscription } = port.sent.findLast((frame) => frame.type === "state.subscribe")?.payload ?? {};
    await port.tell("state.changed", { subscription, state: { ...STATE, instance_state: "background" } });
    await port.tell("state.changed", { state: { ...STATE, instance_state: "closing" } });
    stop();
    await port.tell("state.changed", { subscription, state: STATE });
    expect(seen).toEqual(["active", "background", "closing"]);
    expect(surface.state.snapshot()).toEqual(STATE);
  });

  test("a projection that it asks for", async () => {
    const { surface, port } = await connected();
    const asked = surface.state.refresh();
    await port.answer("state.get", { ok: { ...STATE, instance_state: "suspended" } });
    await asked;
    expect(surface.state.snapshot()?.instance_state).toBe("suspended");
  });

  test("the newest lifecycle event, also when it came before anybody listened", async () => {
    const { surface, port } = await connected();
    await port.tell("lifecycle.start");
    await port.tell("lifecycle.foreground");
    const seen: unknown[] = [];
    surface.lifecycle.subscribe((event) => seen.push(event));
    await port.tell("lifecycle.closing", { wait_ms: 500, reason: "completed" });
    expect(seen).toEqual([{ type: "foreground" }, { type: "closing", wait_ms: 500, reason: "completed" }]);
  });

  test("what a restore brings back is heard although a later event came meanwhile", async () => {
    const { surface, port } = await connected();
    await port.tell("lifecycle.restore", { snapshot: { page: 2 } });
    await port.tell("lifecycle.foreground");
    const seen: unknown[] = [];
    surface.lifecycle.subscribe((event) => seen.push(event));
    await port.tell("lifecycle.restore", { snapshot: { page: 3 } });
    expect(seen).toEqual([
      { type: "restore", snapshot: { page: 2 } },
      { type: "foreground" },
      { type: "restore", snapshot: { page: 3 } },
    ]);
  });

  test("values that are not texts are not looked at", async () => {
    const { surface, port } = await connected();
    await port.give({ v: 1, type: "state.changed", payload: { state: 1 } });
    expect(surface.state.snapshot()).toEqual(STATE);
  });
});

test("the shell's question whether the surface still runs is answered at once, below the session", async () => {
  const { port } = await connected();
  const before = port.sent.length;
  await port.give('{"v":1,"type":"ping","payload":{"number":7}}');
  await port.give('{"v":1,"type":"ping","payload":{"number":"7"}}');
  expect(port.sent.slice(before)).toEqual([{ v: 1, type: "pong", payload: { number: 7 } }]);
});

describe("what a surface asks", () => {
  test.each<[string, (surface: Surface) => unknown, object]>([
    ["lifecycle.defer_close", (s) => s.lifecycle.deferClose(2_000), { wait_ms: 2_000 }],
    ["lifecycle.snapshot", (s) => s.lifecycle.snapshot({ page: 2 }), { data: { page: 2 } }],
    ["ui.action", (s) => s.actions.dispatch({ id: "a1", action: "edit" }), { id: "a1", action: "edit", params: {} }],
    ["inbox.list", (s) => s.agentMessages.list({ after: 3 }), { after: 3 }],
    ["inbox.ack", (s) => s.agentMessages.acknowledge("i1"), { id: "i1" }],
    ["session.get", (s) => s.sessionData.get(), {}],
    ["diagnostics.log", (s) => s.diagnostics.log("info", "hi"), { level: "info", message: "hi" }],
  ])("%s", async (type, ask, payload) => {
    const { surface, port } = await connected();
    const asked = ask(surface);
    expect(port.sent.at(-1)).toMatchObject({ type, payload });
    if (!(asked instanceof Promise)) return;
    await port.answer(type, { error: { code: "forbidden", message: "no", context: {} } });
    expect(await codeOf(asked)).toBe("forbidden");
  });
});
