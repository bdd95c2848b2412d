import { parseStrictJson } from "@lineloop/ui-model";
import { describe, expect, test } from "vitest";
import { FrameRefused } from "../src/bridge/errors.ts";
import { decode, encode, encodeError, encodeOk, type Direction } from "../src/bridge/frames.ts";
import { MAX_FRAME_BYTES, MAX_SESSION_FRAME_BYTES } from "../src/bridge/shapes.generated.ts";
import { cases } from "./golden.ts";

interface Case {
  readonly name: string;
  readonly direction: Direction;
  readonly text: string;
  readonly core?: boolean;
  readonly reply_to?: string;
  readonly code?: string;
}

function refusal(text: string, direction: Direction, core = false): FrameRefused {
  try {
    decode(text, direction, { core, parse: parseStrictJson });
  } catch (error) {
    if (error instanceof FrameRefused) return error;
    throw error;
  }
  throw new Error("the frame was taken");
}

describe("frames of the bridge", () => {
  test.each(cases<Case>("bridge/frames.json"))("$name", ({ direction, text, core, code, reply_to }) => {
    if (code === undefined) {
      const frame = decode(text, direction, { core: core ?? false, parse: parseStrictJson });
      expect(JSON.parse(text)).toMatchObject(frame);
      return;
    }
    const refused = refusal(text, direction, core);
    expect([refused.code, refused.requestId]).toEqual([code, reply_to]);
  });

  test("the head comes first, so that a refused frame can be answered", () => {
    expect(encode("session.get", {}, "r1")).toBe('{"v":1,"id":"r1","type":"session.get","payload":{}}');
    expect(encode("tool.open", { call_id: "c" })).toBe('{"v":1,"type":"tool.open","payload":{"call_id":"c"}}');
    expect(encodeOk("r1", undefined)).toBe('{"v":1,"reply_to":"r1","ok":null}');
    expect(decode(encodeError("r1", "forbidden", "no"), "to_app")).toEqual({
      reply_to: "r1",
      error: { code: "forbidden", message: "no", context: {} },
    });
  });

  test("bytes count, not characters", () => {
    const log = (message: string): string => encode("diagnostics.log", { level: "info", message });
    const room = MAX_FRAME_BYTES - log("").length;
    expect(decode(log("x".repeat(room)), "to_runtime")).toMatchObject({ type: "diagnostics.log" });
    expect(refusal(log("x".repeat(room + 1)), "to_runtime").code).toBe("bridge_invalid");
    expect(decode(log("时".repeat(Math.floor(room / 3))), "to_runtime")).toMatchObject({ type: "diagnostics.log" });
    expect(refusal(log("时".repeat(Math.floor(room / 3) + 1)), "to_runtime").code).toBe("bridge_invalid");
  });

  test("a frame nests at most 32 levels, session data have limits of their own", () => {
    const nested = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels));
    const event = (levels: number): string => encode("surface.event", { name: "n", data: nested(levels) });
    expect(decode(event(31), "to_runtime")).toMatchObject({ type: "surface.event" });
    expect(refusal(event(32), "to_runtime").code).toBe("bridge_invalid");
    const replace = encode("session.replace", { data: { a: nested(60) }, expected_revision: 0 }, "r1");
    expect(decode(replace, "to_runtime")).toMatchObject({ id: "r1" });
  });

  test("messages have as much room as session data", () => {
    const message = { id: "m1", content: { text: "x".repeat(MAX_FRAME_BYTES) } };
    const frame = encode("messages.message", { subscription: "sub/1", message });
    expect(decode(frame, "to_app", { core: true })).toMatchObject({ type: "messages.message" });
  });

  test("session data that are too large say so", () => {
    const data = { a: "x".repeat(MAX_SESSION_FRAME_BYTES) };
    const refused = refusal(encode("session.replace", { data, expected_revision: 0 }, "r1"), "to_runtime");
    expect([refused.code, refused.requestId]).toEqual(["session_data_quota_exceeded", "r1"]);
  });

  test("names of Object.prototype are names like any other", () => {
    const text = '{"v":1,"type":"state.changed","payload":{"state":1,"__proto__":{"polluted":true}}}';
    expect(refusal(text, "to_app").code).toBe("bridge_invalid");
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});
