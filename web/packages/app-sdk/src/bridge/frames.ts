// One frame of the bridge: JSON text, its head first (spec/protocol.md §10.1). Pure; equal to
// src/lineloop/device/bridge/frames.py by spec/golden/bridge. The table of frames is generated from there.

import { isDeeperThan, isObject } from "../json.ts";
import { FrameRefused } from "./errors.ts";
import { MAX_DEPTH, MAX_FRAME_BYTES, MAX_SESSION_FRAME_BYTES, ROOMY, SHAPES } from "./shapes.generated.ts";

export type Direction = "to_runtime" | "to_app";
export type Payload = Readonly<Record<string, unknown>>;
type Check = keyof typeof CHECKS;
type Fields = Readonly<Record<string, Check>>;
/** Who sends it, whether it asks for an answer, required fields, optional fields, who may send it. */
export type Shape = readonly [
  direction: Direction,
  request: boolean,
  required: Fields,
  optional?: Fields,
  audience?: "core_apps",
];

/** A valid request or event; events have no id. */
export interface Frame {
  readonly type: string;
  readonly payload: Payload;
  readonly id?: string;
}

/** A valid answer: what was asked for, or why not. */
export interface Answer {
  readonly reply_to: string;
  readonly ok?: unknown;
  readonly error?: Payload;
}

export interface Reading {
  /** Whether the session belongs to a core app. */
  readonly core?: boolean;
  /** How text becomes a value; throws for what is not JSON. JSON.parse forgives what a strict reader refuses. */
  readonly parse?: (text: string) => unknown;
}

const HEAD = /^\{"v":1,"id":"([^"\\]{1,256})","type":"([a-z_.]{1,40})"/;
const MAX_ID_CHARS = 256;

const isName = (value: unknown): value is string =>
  typeof value === "string" && value !== "" && value.length <= MAX_ID_CHARS;

const CHECKS = {
  anything: () => true,
  bool: (value: unknown) => typeof value === "boolean",
  count: (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0,
  list: (value: unknown) => Array.isArray(value),
  name: isName,
  name_or_null: (value: unknown) => value === null || isName(value),
  names: (value: unknown) => Array.isArray(value) && value.every(isName),
  object: isObject,
  object_or_null: (value: unknown) => value === null || isObject(value),
  text: (value: unknown) => typeof value === "string",
} as const;

export function encode(type: string, payload: Payload, id?: string): string {
  return JSON.stringify(id === undefined ? { v: 1, type, payload } : { v: 1, id, type, payload });
}

export function encodeOk(replyTo: string, ok: unknown): string {
  return JSON.stringify({ v: 1, reply_to: replyTo, ok: ok ?? null });
}

export function encodeError(replyTo: string, code: string, message: string, context: Payload = {}): string {
  return JSON.stringify({ v: 1, reply_to: replyTo, error: { code, message, context } });
}

/**
 * Reads one frame that was sent in `direction`. Throws FrameRefused: bridge_invalid, forbidden for what only core
 * apps may send, session_data_* for the text of a session.replace that is not acceptable.
 */
export function decode(text: string, direction: Direction, reading: Reading = {}): Frame | Answer {
  if (text.length > MAX_SESSION_FRAME_BYTES) throw unread(text, "the frame is too large");
  let frame: unknown;
  try {
    frame = (reading.parse ?? JSON.parse)(text);
  } catch (error) {
    throw unread(text, `not valid JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!isObject(frame)) throw new FrameRefused("a frame is an object");
  if (frame["v"] !== 1) throw new FrameRefused("unknown version");
  if (Object.hasOwn(frame, "reply_to")) return answer(frame);
  return request(frame, text, direction, reading.core ?? false);
}

function unread(text: string, why: string): FrameRefused {
  const head = HEAD.exec(text.slice(0, 512));
  if (head?.[2] !== "session.replace") return new FrameRefused(why, head?.[1]);
  const tooLarge = text.length > MAX_SESSION_FRAME_BYTES;
  return new FrameRefused(why, head[1], tooLarge ? "session_data_quota_exceeded" : "session_data_invalid");
}

function answer(frame: Payload): Answer {
  const { reply_to, ok, error } = frame;
  const good = Object.hasOwn(frame, "ok");
  if (!isName(reply_to) || Object.keys(frame).length !== 3 || good === Object.hasOwn(frame, "error")) {
    throw new FrameRefused("an answer has reply_to and either ok or error");
  }
  if (good) return { reply_to, ok };
  if (!isObject(error)) throw new FrameRefused("an error is an object");
  return { reply_to, error };
}

function request(frame: Payload, text: string, direction: Direction, core: boolean): Frame {
  const { id: claimed, type, payload } = frame;
  const id = isName(claimed) ? claimed : undefined;
  const refuse = (why: string, code?: string): never => {
    throw new FrameRefused(why, id, code);
  };
  if (Object.keys(frame).some((name) => !["v", "id", "type", "payload"].includes(name))) {
    refuse("unknown field in the frame");
  }
  if (Object.hasOwn(frame, "id") && id === undefined) refuse("an id is a short text");
  const shape = typeof type === "string" && Object.hasOwn(SHAPES, type) ? SHAPES[type] : undefined;
  if (shape === undefined || typeof type !== "string") return refuse("unknown frame type");
  const [sentBy, asks, required, optional = {}, audience] = shape;
  if (sentBy !== direction) refuse(`${type} goes the other way`);
  if (direction === "to_runtime" && asks !== (id !== undefined)) {
    refuse(`${type} ${asks ? "needs an" : "has no"} id`);
  }
  if (audience === "core_apps" && !core) refuse(`${type} is for core apps`, "forbidden");
  if (!isObject(payload)) return refuse(`${type} needs a payload`);
  checkFields(type, payload, required, optional, refuse);
  checkBounds(type, payload, text, refuse);
  return id === undefined ? { type, payload } : { type, payload, id };
}

function checkFields(
  type: string,
  payload: Payload,
  required: Fields,
  optional: Fields,
  refuse: (why: string) => never,
): void {
  const fits = (fields: Fields, name: string): boolean => {
    const check = Object.hasOwn(fields, name) ? fields[name] : undefined;
    return check !== undefined && Object.hasOwn(payload, name) && CHECKS[check](payload[name]);
  };
  for (const name of Object.keys(required)) {
    if (!fits(required, name)) refuse(`${type}: ${name} is missing or of the wrong type`);
  }
  for (const name of Object.keys(payload)) {
    if (!Object.hasOwn(required, name) && !fits(optional, name)) {
      refuse(`${type}: '${name.slice(0, 40)}' is not taken`);
    }
  }
}

/** Session data have limits and codes of their own further down; here only the frame's. */
function checkBounds(type: string, payload: Payload, text: string, refuse: (why: string) => never): void {
  if (ROOMY.includes(type)) return;
  if (isLargerThan(text, MAX_FRAME_BYTES)) refuse(`${type} is larger than ${MAX_FRAME_BYTES} bytes`);
  if (isDeeperThan(payload, MAX_DEPTH)) refuse(`${type} nests more than ${MAX_DEPTH} levels`);
}

/** Whether the text has more than `limit` bytes as UTF-8. */
function isLargerThan(text: string, limit: number): boolean {
  if (text.length > limit) return true;
  if (text.length * 3 <= limit) return false;
  let bytes = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes > limit;
}
