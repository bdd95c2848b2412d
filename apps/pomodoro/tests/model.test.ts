import { describe, expect, test } from "vitest";
import { clockText, msToNextText, shareLeft, viewOf } from "../src/surface/model.ts";
import { textsOf } from "../src/surface/texts.ts";
import { ended, MINUTE, running, state } from "./projections.ts";

describe("what the timer shows", () => {
  test.each([
    ["nothing was projected yet", null, "connecting"],
    ["there is no operation", state(), "empty"],
    ["the app is being brought to the front", state({ activation: "starting" }), "starting"],
    ["the time runs", running(MINUTE), "running"],
    ["the time is up", ended("completed"), "completed"],
    ["it was interrupted", ended("interrupted", MINUTE), "interrupted"],
    ["it ended in a way this version does not know", ended("paused_forever"), "ended"],
  ] as const)("%s", (_, projected, phase) => {
    expect(viewOf(projected, 0).phase).toBe(phase);
  });

  test("between projections the time goes on, and it stops at zero", () => {
    expect(viewOf(running(10_000), 4_000)).toMatchObject({ remainingMs: 6_000, elapsedMs: 25 * MINUTE - 6_000 });
    expect(viewOf(running(10_000), 99_000)).toMatchObject({ remainingMs: 0, elapsedMs: 25 * MINUTE, phase: "running" });
  });

  test("what has ended does not go on", () => {
    expect(viewOf(ended("interrupted", 13 * MINUTE), 99_000)).toMatchObject({
      remainingMs: 13 * MINUTE,
      elapsedMs: 12 * MINUTE,
      endsAt: null,
    });
  });

  test("a label is the person's words or nothing", () => {
    expect(viewOf(running(1, { params: { minutes: 1, label: "  Tea " } }), 0).label).toBe("Tea");
    expect(viewOf(running(1, { params: { minutes: 1, label: " " } }), 0).label).toBeNull();
    expect(viewOf(running(1, { params: { minutes: 1 } }), 0).label).toBeNull();
  });

  test("the ring empties with the time and is whole when it is done", () => {
    expect(shareLeft(viewOf(running(25 * MINUTE), 0))).toBe(1);
    expect(shareLeft(viewOf(running(25 * MINUTE), 12.5 * MINUTE))).toBe(0.5);
    expect(shareLeft(viewOf(ended("completed"), 0))).toBe(1);
    expect(shareLeft(viewOf(state(), 0))).toBe(0);
  });

  test.each([
    [0, "0:00"],
    [1, "0:01"],
    [59_001, "1:00"],
    [25 * MINUTE, "25:00"],
    [59 * MINUTE + 59_000, "59:59"],
    [60 * MINUTE, "1:00:00"],
    [180 * MINUTE - 1, "3:00:00"],
    [61 * MINUTE + 1_000, "1:01:01"],
  ])("%d ms are %s", (milliseconds, text) => {
    expect(clockText(milliseconds)).toBe(text);
  });

  test("the text changes exactly when the next second begins", () => {
    for (const left of [1, 999, 1_000, 1_001, 61_500]) {
      const next = msToNextText(left);
      expect(clockText(left - next + 1)).toBe(clockText(left));
      expect(clockText(left - next)).not.toBe(clockText(left));
    }
  });

  test("both languages say every length", () => {
    expect([MINUTE, 25 * MINUTE, 1_000, 30_000].map(textsOf("en").length)).toEqual([
      "1 minute",
      "25 minutes",
      "1 second",
      "30 seconds",
    ]);
    expect([25 * MINUTE, 30_000].map(textsOf("zh").length)).toEqual(["25 分钟", "30 秒"]);
  });
});
