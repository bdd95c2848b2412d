import { describe, expect, test } from "vitest";
import { ERRORS, fromProblem } from "../src/index.ts";
import { cases } from "./golden.ts";

interface Case {
  readonly name: string;
  readonly problem: unknown;
  readonly code: string;
  readonly retryable: boolean;
  readonly message: string;
  readonly pointers?: readonly string[];
}

describe("problem documents", () => {
  test.each(cases<Case>("errors/problems.json"))("$name", (one) => {
    const error = fromProblem(one.problem);
    expect(error).toMatchObject({ code: one.code, retryable: one.retryable, message: one.message });
    expect(error.errors.map((place) => place.pointer)).toEqual(one.pointers ?? []);
  });

  test.each(Object.entries(ERRORS))("%s keeps its status", (code, facts) => {
    expect(fromProblem({ code, detail: "why" }).status).toBe(facts.status);
  });

  test("an inherited name is no code", () => {
    expect(fromProblem({ code: "toString" }).code).toBe("internal");
    expect(fromProblem(null).code).toBe("internal");
  });
});
