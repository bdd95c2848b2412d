// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test } from "vitest";
import type { FromGate, ToGate } from "../../src/workspace/gate.ts";
import type { Instance } from "../../src/workspace/shapes.ts";
import { Stage, type Wanted } from "../../src/workspace/stage.ts";
import { FakeTime, settle } from "../world.ts";

function instance(instance_id: string): Instance {
  return {
    instance_id,
    conversation_id: "c1",
    app_scope: "pomodoro",
    title: "Pomodoro",
    state: "foreground",
    activation_id: "a1",
    generation: 1,
    confirmed: false,
    surface: true,
  };
}

class Gate {
  posted: ToGate[] = [];
  tell: (message: FromGate) => void = () => undefined;
  ended = false;
}

class World {
  readonly time = new FakeTime();
  readonly closed: [string, string][] = [];
  readonly texts: [string, string][] = [];
  readonly gates: Gate[] = [];
  opened = 0;
  refuse = false;
  readonly container = document.body.appendChild(document.createElement("div"));
  readonly stage = new Stage({
    open: async () => {
      this.opened += 1;
      if (this.refuse) throw new Error("no");
      return { launch: `l${this.opened}`, nonce: `n${this.opened}`, url: `http://127.0.0.1:9/app/l${this.opened}/` };
    },
    close: (launch, reason) => this.closed.push([launch, reason]),
    sendText: (launch, text) => this.texts.push([launch, text]),
    openGate: () => {
      const gate = new Gate();
      this.gates.push(gate);
      return {
        post: (message) => gate.posted.push(message),
        onMessage: (listener) => (gate.tell = listener),
        end: () => (gate.ended = true),
      };
    },
    after: (wait_ms, work) => this.time.after(wait_ms, work),
    now: () => this.time.now(),
  });
  readonly unmount = this.stage.mount(this.container);

  async want(more: Partial<Wanted> = {}): Promise<void> {
    const one = instance("i1");
    this.stage.want({ instances: [one], foreground: one, mayOpen: true, cleared: false, visible: true, ...more });
    await settle();
  }
  get frames(): HTMLIFrameElement[] {
    return [...this.container.querySelectorAll("iframe")];
  }
  say(data: unknown, origin = "null", frame = this.frames.at(-1)): void {
    const source = frame?.contentWindow ?? null;
    window.dispatchEvent(new MessageEvent("message", { data, origin, source }));
  }
  view(instance_id = "i1") {
    return this.stage.views.get().get(instance_id);
  }
}

let world: World;
beforeEach(() => {
  world = new World();
});
afterEach(() => {
  world.unmount();
  document.body.replaceChildren();
});

async function connected(): Promise<World> {
  await world.want();
  world.say({ lineloop: 1, nonce: "n1" });
  return world;
}

test("the frame of an app is a sandbox without an origin, referrer or permissions", async () => {
  await world.want();
  const frame = world.frames[0];
  expect(frame?.getAttribute("sandbox")).toBe("allow-scripts");
  expect(frame?.getAttribute("referrerpolicy")).toBe("no-referrer");
  expect(frame?.getAttribute("allow")).toBe("");
  expect(frame?.tabIndex).toBe(-1);
  expect(world.view()).toEqual({ phase: "opening" });
});

test("one handshake with the launch's nonce opens the gate, and frames go both ways", async () => {
  await connected();
  expect(world.view()).toEqual({ phase: "connected", responsive: true });
  expect(world.gates[0]?.posted[0]).toEqual({ kind: "port" });
  world.gates[0]?.tell({ kind: "frames", texts: ["a", "b"] });
  expect(world.texts).toEqual([
    ["l1", "a"],
    ["l1", "b"],
  ]);
  world.stage.text("l1", "c");
  expect(world.gates[0]?.posted.at(-1)).toEqual({ kind: "send", text: "c" });
  expect(world.closed).toEqual([]);
});

function isEnded(reason: string): void {
  expect(world.frames).toEqual([]);
  expect(world.closed).toEqual([["l1", reason]]);
  expect(world.view()).toEqual({ phase: "ended", reason });
}

test.each([
  ["a wrong nonce", { lineloop: 1, nonce: "n2" }, "null"],
  ["another origin", { lineloop: 1, nonce: "n1" }, "http://127.0.0.1:1"],
  ["more than a handshake", { lineloop: 1, nonce: "n1", more: true }, "null"],
  ["a text", "n1", "null"],
  ["nothing", null, "null"],
])("%s ends the frame", async (_name, data, origin) => {
  await world.want();
  world.say(data, origin);
  isEnded("protocol");
});

test("a second handshake, or any other word to the window, ends the frame and its gate", async () => {
  await connected();
  world.say({ lineloop: 1, nonce: "n1" });
  isEnded("protocol");
  expect(world.gates[0]?.ended).toBe(true);
  world.gates[0]?.tell({ kind: "frames", texts: ["late"] });
  expect(world.texts).toEqual([]);
});

test("a browser that can keep apps from taking the focus is asked to", async () => {
  const features = () => ["focus-without-user-activation"];
  Object.defineProperty(document, "featurePolicy", { value: { features }, configurable: true });
  await world.want();
  Reflect.deleteProperty(document, "featurePolicy");
  expect(world.frames[0]?.getAttribute("allow")).toBe("focus-without-user-activation 'none'");
});

test("an app whose process broke down is ended as crashed", async () => {
  await connected();
  world.gates[0]?.tell({ kind: "closed" });
  await world.time.advance(1_000);
  isEnded("crashed");
});

test("a frame that loads again is said to have navigated, not crashed", async () => {
  await connected();
  const frame = world.frames[0];
  world.gates[0]?.tell({ kind: "closed" });
  for (const _ of [1, 2]) frame?.dispatchEvent(new Event("load"));
  await world.time.advance(1_000);
  isEnded("navigated");
});

test("a flood in the gate ends the frame", async () => {
  await connected();
  world.gates[0]?.tell({ kind: "broken", reason: "flood" });
  isEnded("flood");
});

test("a second load ends the frame, whoever loaded", async () => {
  await connected();
  const frame = world.frames[0];
  frame?.dispatchEvent(new Event("load"));
  expect(world.frames).toHaveLength(1);
  frame?.dispatchEvent(new Event("load"));
  isEnded("navigated");
});

function violate(): void {
  const event = Object.assign(new Event("securitypolicyviolation"), { effectiveDirective: "frame-src" });
  document.dispatchEvent(event);
}

test("a navigation that the policy stopped ends the only frame at once", async () => {
  await connected();
  violate();
  isEnded("navigated");
});

test("of several frames the one that loads again goes; when none does, all go", async () => {
  const [one, two] = [instance("i1"), instance("i2")];
  await world.want({ instances: [one, two] });
  await world.want({ instances: [one, two], foreground: two });
  expect(world.frames).toHaveLength(2);
  violate();
  expect(world.frames).toHaveLength(2);
  const runaway = world.frames[0];
  for (const _ of [1, 2]) runaway?.dispatchEvent(new Event("load"));
  await world.time.advance(1_000);
  expect(world.closed).toEqual([["l1", "navigated"]]);
  world.stage.reopen("i1");
  await world.want({ instances: [one, two], foreground: one });
  violate();
  await world.time.advance(1_000);
  expect(world.frames).toEqual([]);
});

test("an app that never connects is ended, and can be opened again", async () => {
  await world.want();
  await world.time.advance(20_000);
  isEnded("crashed");
  world.stage.reopen("i1");
  await settle();
  expect(world.opened).toBe(2);
  expect(world.view()).toEqual({ phase: "opening" });
});

test("an ended app does not come back by itself", async () => {
  await connected();
  world.stage.stop("i1", "unresponsive");
  isEnded("unresponsive");
  await world.want();
  expect(world.opened).toBe(1);
});

test("what the Runtime refuses or ends is said, with its reason", async () => {
  world.refuse = true;
  await world.want();
  expect(world.view()).toEqual({ phase: "ended", reason: "not_opened" });
  world.refuse = false;
  world.stage.reopen("i1");
  await settle();
  world.stage.gone("l2", "protocol");
  expect(world.view()).toEqual({ phase: "ended", reason: "protocol" });
  expect(world.closed).toEqual([]);
});

test("no frame is on the page while a consent sheet is open; afterwards the app is opened again", async () => {
  await connected();
  await world.want({ cleared: true });
  expect(world.frames).toEqual([]);
  expect(world.closed).toEqual([["l1", "unmounted"]]);
  await world.want({ cleared: false });
  expect(world.opened).toBe(2);
  expect(world.frames).toHaveLength(1);
});

test("an answer to an opening that is not wanted any more closes its launch", async () => {
  const one = instance("i1");
  world.stage.want({ instances: [one], foreground: one, mayOpen: true, cleared: false, visible: true });
  world.stage.want({ instances: [], foreground: null, mayOpen: true, cleared: false, visible: true });
  await settle();
  expect(world.frames).toEqual([]);
  expect(world.closed).toEqual([["l1", "unmounted"]]);
});

test("a frame behind stays alive, unseen and unasked; a seventh sends the longest unseen away", async () => {
  const all = ["i1", "i2", "i3", "i4", "i5", "i6", "i7"].map(instance);
  for (const one of all.slice(0, 6)) await world.want({ instances: all, foreground: one });
  const first = world.frames[0];
  expect(first?.hidden).toBe(true);
  expect(world.frames.at(-1)?.hidden).toBe(false);
  await world.want({ instances: all, foreground: all[0] ?? null });
  expect(first?.hidden).toBe(false);
  expect(world.opened).toBe(6);
  await world.want({ instances: all, foreground: all[6] ?? null });
  expect(world.closed).toEqual([["l2", "unmounted"]]);
});

test("an app is asked for signs of life only while a person can see it", async () => {
  await connected();
  const watching = () => world.gates[0]?.posted.filter((message) => message.kind === "watch").at(-1);
  expect(watching()).toEqual({ kind: "watch", watching: true });
  await world.want({ visible: false });
  expect(watching()).toEqual({ kind: "watch", watching: false });
});

test("after a new connection every surface is opened anew, and nothing of the old ones is told", async () => {
  await connected();
  world.stage.restart();
  await settle();
  expect(world.closed).toEqual([]);
  expect(world.opened).toBe(2);
  expect(world.frames).toHaveLength(1);
});

test("messages of other windows are nobody's", async () => {
  await world.want();
  const other = document.body.appendChild(document.createElement("iframe"));
  world.say({ lineloop: 1, nonce: "n1" }, "null", other);
  window.dispatchEvent(new MessageEvent("message", { data: { lineloop: 1, nonce: "n1" }, origin: "null" }));
  expect(world.view()).toEqual({ phase: "opening" });
});
