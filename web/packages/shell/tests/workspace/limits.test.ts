import { expect, test } from "vitest";
import {
  BURST,
  isLongerThan,
  isWithinLimits,
  MAX_BYTES,
  MAX_DATA_BYTES,
  nestsDeeperThan,
  RATE_PER_SECOND,
  TokenBucket,
} from "../../src/workspace/limits.ts";

test("a bucket lets a burst through, then the rate, and nothing for a clock that jumps back", () => {
  const bucket = new TokenBucket(RATE_PER_SECOND, BURST, 0);
  const taken = (now: number) => {
    let count = 0;
    while (bucket.take(now)) count += 1;
    return count;
  };
  expect(taken(0)).toBe(200);
  expect(taken(1_000)).toBe(50);
  expect(taken(500)).toBe(0);
  expect(taken(1_100)).toBe(5);
  expect(taken(3_600_000)).toBe(200);
});

test("bytes are counted as UTF-8, and only as far as it matters", () => {
  for (const [text, bytes] of [["abc", 3], ["é", 2], ["汉字", 6], ["😀", 4], ["a😀汉", 8]] as const) {
    expect(isLongerThan(text, bytes)).toBe(false);
    expect(isLongerThan(text, bytes - 1)).toBe(true);
  }
  expect(isLongerThan("x".repeat(64 * 1024 * 1024), 10)).toBe(true);
});

test("depth is measured without parsing; brackets in strings do not count", () => {
  expect(nestsDeeperThan("[[[]]]", 3)).toBe(false);
  expect(nestsDeeperThan("[[[[]]]]", 3)).toBe(true);
  expect(nestsDeeperThan('{"a":"[[[[\\"[["}', 1)).toBe(false);
  expect(nestsDeeperThan("[".repeat(10_000), 64)).toBe(true);
});

function frame(type: string, payload: string): string {
  return `{"v":1,"id":"r/1","type":"${type}","payload":${payload}}`;
}
const nested = (levels: number) => `{"a":`.repeat(levels) + "1" + "}".repeat(levels);

test("an ordinary frame may be 256 KiB and 32 levels, one with session data 1.25 MiB and 64", () => {
  const filled = (type: string, size: number) => {
    const empty = frame(type, `{"data":""}`);
    return frame(type, `{"data":"${"x".repeat(size - empty.length)}"}`);
  };
  expect(isWithinLimits(filled("ui.action", MAX_BYTES))).toBe(true);
  expect(isWithinLimits(filled("ui.action", MAX_BYTES + 1))).toBe(false);
  expect(isWithinLimits(filled("session.replace", MAX_DATA_BYTES))).toBe(true);
  expect(isWithinLimits(filled("session.replace", MAX_DATA_BYTES + 1))).toBe(false);
  expect(isWithinLimits(frame("ui.action", nested(32)))).toBe(true);
  expect(isWithinLimits(frame("ui.action", nested(33)))).toBe(false);
  expect(isWithinLimits(frame("session.replace", `{"data":${nested(64)}}`))).toBe(true);
  expect(isWithinLimits(frame("session.replace", `{"data":${nested(65)}}`))).toBe(false);
});

test("a frame that only mentions session data further in has no more room", () => {
  const text = `{"v":1,"id":"r/1","type":"ui.action","payload":{"type":"session.replace","x":"${"x".repeat(MAX_BYTES)}"}}`;
  expect(isWithinLimits(text)).toBe(false);
});
