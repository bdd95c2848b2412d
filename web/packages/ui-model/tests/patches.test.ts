import { describe, expect, test } from "vitest";
import { applyPatch, emptyContent, fold, LoopError, type Content } from "../src/index.ts";
import { cases } from "./golden.ts";

interface Case {
  readonly name: string;
  readonly content?: Content;
  readonly patches: readonly unknown[];
  readonly result?: Content;
  readonly refused?: { readonly at: number; readonly pointer: string };
}

const CASES = cases<Case>("patches/reducer.json");
const TAKEN = CASES.filter((one) => one.result !== undefined);
const REFUSED = CASES.filter((one) => one.refused !== undefined);

function refusalOf(run: () => unknown): LoopError {
  try {
    run();
  } catch (error) {
    if (error instanceof LoopError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("the patch reducer", () => {
  test.each(TAKEN)("$name", ({ content, patches, result }) => {
    const after = fold(content ?? emptyContent(), patches);
    expect(JSON.stringify(after)).toBe(JSON.stringify(result));
  });

  test.each(REFUSED)("$name", ({ content, patches, refused }) => {
    const { at, pointer } = refused as NonNullable<Case["refused"]>;
    const before = fold(content ?? emptyContent(), patches.slice(0, at));
    const text = JSON.stringify(before);
    const error = refusalOf(() => applyPatch(before, patches[at]));
    expect([error.code, error.errors[0]?.pointer]).toEqual(["patch_invalid", pointer]);
    expect(JSON.stringify(before)).toBe(text);
  });

  test.each(CASES)("changes no input: $name", ({ content, patches }) => {
    let model = freeze(content ?? emptyContent());
    for (const patch of patches) {
      try {
        model = freeze(applyPatch(model, freeze(patch)));
      } catch (error) {
        expect(error).toBeInstanceOf(LoopError);
      }
    }
  });

  test("an append shares everything off its path", () => {
    const other = { id: "b", type: "json", content: { deep: [1] } };
    const before: Content = { ...emptyContent(), blocks: [{ id: "a", type: "text", content: "x" }, other] };
    const patch = { op: "append", seq: 1, mask: "block.content", block: { id: "a", content: "y" } };
    const after = applyPatch(before, patch);
    expect(after.blocks[1]).toBe(other);
    expect(after.meta).toBe(before.meta);
  });

  test("nothing pollutes the prototype of objects", () => {
    for (const { content, patches } of CASES) {
      try {
        fold(content ?? emptyContent(), patches);
      } catch (error) {
        expect(error).toBeInstanceOf(LoopError);
      }
    }
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    Object.values(value).forEach(freeze);
    Object.freeze(value);
  }
  return value;
}
