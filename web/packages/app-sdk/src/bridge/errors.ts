// The one kind of error that the bridge gives: a code of spec/errors.json, a sentence, public facts.

import { isObject } from "../json.ts";

export class RuntimeError extends Error {
  readonly code: string;
  readonly context: Readonly<Record<string, unknown>>;

  constructor(code: string, message: string, context: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = "RuntimeError";
    this.code = code;
    this.context = context;
  }
}

/** A frame that is not taken. `requestId` is set when its sender can be answered. */
export class FrameRefused extends RuntimeError {
  readonly requestId: string | undefined;

  constructor(message: string, requestId?: string, code = "bridge_invalid") {
    super(code, message);
    this.name = "FrameRefused";
    this.requestId = requestId;
  }
}

/** The error that an answer carries; what it does not say is filled in. */
export function errorOf(answer: Readonly<Record<string, unknown>>): RuntimeError {
  const { code, message, context } = answer;
  const named = typeof code === "string" ? code : "internal";
  return new RuntimeError(named, typeof message === "string" ? message : named, isObject(context) ? context : {});
}
