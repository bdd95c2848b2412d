// One kind of error: a code of spec/errors.json, a sentence for people, the broken places (spec/protocol.md §12).

import { ERRORS, type ErrorCode } from "./errors.generated.ts";

export interface FieldError {
  readonly pointer: string;
  readonly message: string;
}

export class LoopError extends Error {
  readonly code: ErrorCode;
  readonly errors: readonly FieldError[];
  readonly detail: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    errors: readonly FieldError[] = [],
    detail: Readonly<Record<string, unknown>> = {},
  ) {
    super(message);
    this.name = "LoopError";
    this.code = code;
    this.errors = errors;
    this.detail = detail;
  }

  get status(): number {
    return ERRORS[this.code].status;
  }

  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }
}

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === "string" && Object.hasOwn(ERRORS, code);
}

/** The error that a problem document tells of; an unknown code counts as `internal` but keeps its text. */
export function fromProblem(problem: unknown): LoopError {
  const fields = (typeof problem === "object" && problem !== null ? problem : {}) as Record<string, unknown>;
  const code = isErrorCode(fields["code"]) ? fields["code"] : "internal";
  const message = [fields["detail"], fields["title"], fields["code"]].find(
    (text) => typeof text === "string" && text !== "",
  );
  const errors = Array.isArray(fields["errors"]) ? (fields["errors"] as FieldError[]) : [];
  const context = fields["context"];
  const detail = typeof context === "object" && context !== null ? (context as Record<string, unknown>) : {};
  return new LoopError(code, String(message ?? code), errors, detail);
}
