import { describe, expect, test } from "vitest";
import { checkEnvelope, LoopError } from "../src/index.ts";
import { document } from "./golden.ts";

interface Case {
  readonly name: string;
  readonly set?: Readonly<Record<string, unknown>>;
  readonly remove?: readonly string[];
  readonly make?: { readonly bytes?: number; readonly depth?: number };
  readonly from_agent?: boolean;
  readonly code?: string;
  readonly pointers?: readonly string[];
}

type Tree = Record<string, unknown>;

const GOLDEN = document<{ base: Tree; cases: Case[] }>("envelopes/check.json");

function built(one: Case): unknown {
  const envelope = structuredClone(GOLDEN.base);
  const at = (pointer: string): [Tree, string] => {
    const path = pointer.split("/").slice(1);
    const last = path.pop() as string;
    return [path.reduce((place, part) => place[part] as Tree, envelope), last];
  };
  for (const [pointer, value] of Object.entries(one.set ?? {})) {
    const [place, last] = at(pointer);
    place[last] = structuredClone(value);
  }
  for (const pointer of one.remove ?? []) {
    const [place, last] = at(pointer);
    delete place[last];
  }
  if (one.make !== undefined) {
    const [place] = at("/payload/params/x");
    place["x"] = one.make.bytes === undefined ? lists(one.make.depth ?? 1) : "x".repeat(one.make.bytes);
  }
  return envelope;
}

function lists(depth: number): unknown {
  let value: unknown = [];
  for (let level = 1; level < depth; level += 1) value = [value];
  return value;
}

describe("the protocol step of the envelope chain", () => {
  test.each(GOLDEN.cases)("[D1, D2, D15] $name", (one) => {
    const fromAgent = one.from_agent ?? true;
    if (one.code === undefined) {
      expect(checkEnvelope(built(one), { fromAgent }).id).toBe("env-1");
      return;
    }
    try {
      checkEnvelope(built(one), { fromAgent });
      expect.unreachable();
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      expect(error.code).toBe(one.code);
      if (one.pointers !== undefined) {
        expect(new Set(error.errors.map((place) => place.pointer))).toEqual(new Set(one.pointers));
      }
    }
  });

  test.each([null, 1, "text", [], true])("[D2] what is no object is no envelope: %j", (raw) => {
    expect(() => checkEnvelope(raw, { fromAgent: true })).toThrow(LoopError);
  });
});
