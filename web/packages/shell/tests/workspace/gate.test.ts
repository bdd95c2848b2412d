import { expect, test } from "vitest";
import { DEAD_AFTER_MS, Gate, PING_EVERY_MS, UNRESPONSIVE_AFTER_MS, type FromGate } from "../../src/workspace/gate.ts";

function open() {
  const world = { now: 0, posted: [] as string[], told: [] as FromGate[] };
  const gate = new Gate({
    now: () => world.now,
    post: (text) => world.posted.push(text),
    tell: (message) => world.told.push(message),
  });
  const tick = (times = 1) => {
    for (let count = 0; count < times; count += 1) {
      world.now += PING_EVERY_MS;
      gate.tick();
    }
  };
  return { ...world, world, gate, tick };
}
const TEXT = '{"v":1,"type":"surface.event","payload":{}}';
const pong = (number: number) => `{"v":1,"type":"pong","payload":{"number":${number}}}`;

test("frames are passed on in order and in batches", () => {
  const { gate, world } = open();
  for (let count = 0; count < 65; count += 1) gate.receive(`${TEXT}${" ".repeat(count)}`);
  gate.flush();
  gate.flush();
  const batches = world.told.map((message) => (message.kind === "frames" ? message.texts.length : 0));
  expect(batches).toEqual([64, 1]);
});

test("a flood breaks the gate; what came before it still counts, nothing after it", () => {
  const { gate, world } = open();
  let open_ = true;
  let received = 0;
  while (open_) {
    open_ = gate.receive(TEXT);
    received += 1;
  }
  expect(received).toBe(201);
  expect(world.told.at(-1)).toEqual({ kind: "broken", reason: "flood" });
  const passed = world.told.reduce((sum, message) => sum + (message.kind === "frames" ? message.texts.length : 0), 0);
  expect(passed).toBe(200);
  expect(gate.receive(TEXT)).toBe(false);
  gate.send("{}");
  expect(world.posted).toEqual([]);
});

test.each([
  ["an object", { v: 1 }],
  ["nothing", null],
  ["bytes", new ArrayBuffer(8)],
  ["a text that is too large", "x".repeat(300_000)],
  ["a text that is too deep", "[".repeat(100)],
])("%s instead of a frame breaks the gate", (_name, data) => {
  const { gate, world } = open();
  expect(gate.receive(data)).toBe(false);
  expect(world.told).toEqual([{ kind: "broken", reason: "protocol" }]);
});

test("an app that answers is asked again and again, and its pongs are not passed on", () => {
  const { gate, world, tick } = open();
  gate.watch(true);
  for (let number = 1; number <= 20; number += 1) {
    tick();
    expect(world.posted.at(-1)).toBe(`{"v":1,"type":"ping","payload":{"number":${number}}}`);
    gate.receive(pong(number));
  }
  gate.flush();
  expect(world.told).toEqual([]);
});

test("an app that does not answer is said to be unresponsive in time, and responsive when it answers", () => {
  const { gate, world, tick } = open();
  gate.watch(true);
  tick();
  tick(UNRESPONSIVE_AFTER_MS / PING_EVERY_MS);
  expect(world.told).toEqual([{ kind: "responsive", responsive: false }]);
  expect(world.now).toBeLessThanOrEqual(5_000);
  expect(world.posted).toHaveLength(1);
  gate.receive(pong(7));
  expect(world.told).toHaveLength(1);
  gate.receive(pong(1));
  expect(world.told.at(-1)).toEqual({ kind: "responsive", responsive: true });
});

test("an app that stays silent counts as broken down", () => {
  const { gate, world, tick } = open();
  gate.watch(true);
  tick();
  tick(DEAD_AFTER_MS / PING_EVERY_MS - 1);
  expect(world.told).toHaveLength(1);
  tick();
  expect(world.told.at(-1)).toEqual({ kind: "closed" });
  tick(5);
  expect(gate.receive(TEXT)).toBe(false);
  expect(world.told).toHaveLength(2);
});

test("an app that nobody sees is not asked and owes nothing", () => {
  const { gate, world, tick } = open();
  tick(10);
  expect(world.posted).toEqual([]);
  gate.watch(true);
  tick(5);
  expect(world.told.at(-1)).toEqual({ kind: "responsive", responsive: false });
  gate.watch(false);
  expect(world.told.at(-1)).toEqual({ kind: "responsive", responsive: true });
  tick(10);
  expect(world.told).toHaveLength(2);
});
