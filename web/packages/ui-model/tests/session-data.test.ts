import { describe, expect, test } from "vitest";
import { checkSessionText, LoopError } from "../src/index.ts";
import { cases } from "./golden.ts";

interface Case {
  readonly name: string;
  readonly text?: string;
  readonly make?: { readonly depth?: number; readonly bytes?: number };
  readonly code?: string;
}

function textOf({ text, make }: Case): string {
  if (make?.depth !== undefined) return '{"a":'.repeat(make.depth) + "1" + "}".repeat(make.depth);
  if (make?.bytes !== undefined) return `{"a":"${"x".repeat(make.bytes - '{"a":""}'.length)}"}`;
  return text ?? "";
}

describe("session data", () => {
  test.each(cases<Case>("session_data/rules.json"))("[D40] $name", (one) => {
    if (one.code === undefined) {
      expect(() => checkSessionText(textOf(one))).not.toThrow();
      return;
    }
    try {
      checkSessionText(textOf(one));
      expect.unreachable();
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      expect(error.code).toBe(one.code);
    }
  });
});
