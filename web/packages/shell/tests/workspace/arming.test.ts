import { expect, test } from "vitest";
import { Arming, INERT_MS, INERT_TOUCH_MS } from "../../src/workspace/arming.ts";

function open(touch = false) {
  const time = { now: 1_000 };
  return { time, arming: new Arming({ now: () => time.now, touch }) };
}

test("time alone does not arm, a pointer that moves does", () => {
  const { time, arming } = open();
  time.now += INERT_MS * 100;
  expect(arming.armed).toBe(false);
  arming.moved(10, 10);
  arming.moved(11, 11);
  expect(arming.armed).toBe(false);
  arming.moved(14, 10);
  expect(arming.armed).toBe(true);
});

test("a pointer that moves too early arms only when the time is up", () => {
  const { time, arming } = open();
  arming.moved(0, 0);
  arming.moved(90, 0);
  expect(arming.armed).toBe(false);
  expect(arming.left()).toBe(INERT_MS);
  time.now += INERT_MS;
  expect(arming.armed).toBe(true);
});

test("Tab arms, keys that were being typed do not", () => {
  const { time, arming } = open();
  time.now += INERT_MS;
  for (const key of ["Enter", " ", "y", "Escape"]) arming.pressed(key);
  expect(arming.armed).toBe(false);
  arming.pressed("Tab");
  expect(arming.armed).toBe(true);
});

test("a finger waits longer, and then needs nothing more", () => {
  const { time, arming } = open(true);
  time.now += INERT_MS;
  expect(arming.armed).toBe(false);
  time.now += INERT_TOUCH_MS;
  expect(arming.armed).toBe(true);
});
