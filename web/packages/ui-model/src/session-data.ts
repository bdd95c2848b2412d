// Which JSON text is session data (spec/protocol.md §10.2). JSON.parse forgives names given twice, lone surrogates and
// numbers beyond the floats; the Runtime does not, so a client that wants to know beforehand asks here.

import { LoopError } from "./errors.ts";
import { checkStrictJson } from "./strict-json.ts";

export const MAX_SESSION_DEPTH = 64;
export const MAX_SESSION_BYTES = 1024 * 1024;

/** Throws LoopError `session_data_invalid` or `session_data_quota_exceeded`. */
export function checkSessionText(text: string): void {
  if (!/^[ \t\n\r]*\{/.test(text)) throw new LoopError("session_data_invalid", "the top level is an object");
  try {
    checkStrictJson(text, MAX_SESSION_DEPTH);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new LoopError("session_data_invalid", error.message);
  }
  if (new TextEncoder().encode(text).length > MAX_SESSION_BYTES) {
    throw new LoopError("session_data_quota_exceeded", `more than ${MAX_SESSION_BYTES} bytes`);
  }
}
