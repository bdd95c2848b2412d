// The frames between this page and the Runtime (spec/protocol.md §10.3): text in, text out, nothing believed.

import { LoopError, fromProblem, isObject, type Json, type JsonObject } from "@lineloop/ui-model";

export const VERSION = 1;

/** What the Runtime takes in one frame of a core session (spec/protocol.md §10.1); a larger one gets no answer. */
export const MAX_FRAME_BYTES = 256 * 1024;

const UTF8 = new TextEncoder();

export function isTooLarge(text: string, max_bytes = MAX_FRAME_BYTES): boolean {
  return text.length > max_bytes || UTF8.encode(text).length > max_bytes;
}

export type Incoming =
  | { readonly kind: "event"; readonly type: string; readonly payload: JsonObject }
  | { readonly kind: "answer"; readonly to: string; readonly ok: JsonObject }
  | { readonly kind: "refusal"; readonly to: string; readonly code: string; readonly error: LoopError };

export function request(id: string, type: string, payload: JsonObject): string {
  return JSON.stringify({ v: VERSION, id, type, payload });
}

export function event(type: string, payload: JsonObject): string {
  return JSON.stringify({ v: VERSION, type, payload });
}

/** What a frame says; null when it is none of this version. A field that is missing counts as empty. */
export function read(text: string): Incoming | null {
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(frame) || frame["v"] !== VERSION) return null;
  const to = frame["reply_to"];
  if (typeof to === "string") {
    if (isObject(frame["error"])) return readRefusal(to, frame["error"]);
    return { kind: "answer", to, ok: object(frame["ok"]) };
  }
  const type = frame["type"];
  if (typeof type !== "string" || frame["id"] !== undefined) return null;
  return { kind: "event", type, payload: object(frame["payload"]) };
}

function readRefusal(to: string, error: JsonObject): Incoming {
  const code = typeof error["code"] === "string" ? error["code"] : "internal";
  const problem = { code, detail: error["message"], context: error["context"] };
  return { kind: "refusal", to, code, error: fromProblem(problem) };
}

export function object(value: Json | undefined): JsonObject {
  return isObject(value) ? value : {};
}

export function tooLarge(): LoopError {
  return new LoopError("limit_exceeded", "This is too large to send.");
}

export function lost(): LoopError {
  return new LoopError("connection_lost", "The Runtime is not there.");
}
