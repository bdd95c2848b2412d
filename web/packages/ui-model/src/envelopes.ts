// The protocol step of the envelope chain (spec/protocol.md §7.3), equal to src/lineloop/protocol/envelopes.py by
// spec/golden/envelopes.

import { LoopError, type FieldError } from "./errors.ts";
import { isDeeperThan, isObject, isWhole, own, type Json, type JsonObject } from "./json.ts";
import { ENVELOPE_TYPES, FROM_AGENT, SENDER_KINDS } from "./tables.generated.ts";
import type { ErrorCode } from "./errors.generated.ts";

export const MAX_ENVELOPE_BYTES = 256 * 1024;
export const MAX_ENVELOPE_DEPTH = 64;

export type EnvelopeType = (typeof ENVELOPE_TYPES)[number];
export type Envelope = JsonObject & { readonly id: string; readonly type: EnvelopeType; readonly payload: Json };

type Check = (value: Json | undefined, pointer: string, errors: FieldError[]) => void;
type Fields = Readonly<Record<string, Check>>;

const APP_SCOPE = /^[a-z][a-z0-9-]{0,62}$/;
const METHOD = /^[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62}){0,3}$/;
const CONTRACT_VERSION = /^[0-9A-Za-z.-]{1,32}$/;
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/;

const wrong = (pointer: string, message: string, errors: FieldError[]): void => {
  errors.push({ pointer, message });
};
const text =
  (pattern: RegExp): Check =>
  (value, pointer, errors) => {
    if (typeof value !== "string" || !pattern.test(value)) wrong(pointer, "is not of the right form", errors);
  };
const id: Check = (value, pointer, errors) => {
  const length = typeof value === "string" ? [...value].length : 0;
  if (length < 1 || length > 256) wrong(pointer, "is a text of 1 to 256 characters", errors);
};
const oneOf =
  (words: readonly string[]): Check =>
  (value, pointer, errors) => {
    if (typeof value !== "string" || !words.includes(value)) wrong(pointer, `is one of ${words.join(", ")}`, errors);
  };
const object: Check = (value, pointer, errors) => {
  if (!isObject(value)) wrong(pointer, "is an object", errors);
};
const count: Check = (value, pointer, errors) => {
  if (!isWhole(value) || value < 0) wrong(pointer, "is a whole number from 0", errors);
};
const anything: Check = (value, pointer, errors) => {
  if (value === undefined) wrong(pointer, "is required", errors);
};
const optional =
  (check: Check): Check =>
  (value, pointer, errors) => {
    if (value !== undefined && value !== null) check(value, pointer, errors);
  };
const fields =
  (shape: Fields): Check =>
  (value, pointer, errors) => {
    if (!isObject(value)) return wrong(pointer, "is an object", errors);
    for (const name of Object.keys(value)) {
      if (!Object.hasOwn(shape, name)) wrong(`${pointer}/${name}`, "is not known here", errors);
    }
    for (const [name, check] of Object.entries(shape)) check(own(value, name), `${pointer}/${name}`, errors);
  };

const ENVELOPE = fields({
  v: anything,
  id,
  type: anything,
  timestamp: text(TIMESTAMP),
  sender: fields({ kind: oneOf(SENDER_KINDS), id }),
  target: fields({
    kind: oneOf(["runtime", "app", "agent"]),
    app_scope: text(APP_SCOPE),
    id: optional(id),
    instance_id: optional(id),
  }),
  scope: fields({
    app_scope: text(APP_SCOPE),
    conversation_id: id,
    instance_id: optional(id),
    operation_id: optional(id),
  }),
  correlation: optional(
    fields({ reply_to: optional(id), call_id: optional(id), inventory_revision: optional(id), sequence: optional(count) }),
  ),
  payload: anything,
  trace: optional(fields({ traceparent: optional(text(/^.{0,512}$/)), tracestate: optional(text(/^.{0,512}$/)) })),
});

const PAYLOADS: Readonly<Record<string, Check>> = {
  "lineup.tool.invoke": fields({
    app_scope: text(APP_SCOPE),
    method: text(METHOD),
    contract_version: text(CONTRACT_VERSION),
    params: object,
  }),
  "lineup.tool.cancel": fields({ app_scope: optional(text(APP_SCOPE)), reason: optional(text(/^.{0,500}$/su)) }),
  "lineup.runtime.inventory": fields({ known_revision: optional(id) }),
};

/** Takes a well-formed envelope or throws LoopError, each refusal with its own code. */
export function checkEnvelope(raw: unknown, options: { readonly fromAgent: boolean }): Envelope {
  if (!isObject(raw)) refuse("envelope_invalid", "an envelope is an object", "");
  if (own(raw, "v") !== 1) refuse("envelope_version_unsupported", "the envelope version is not 1", "/v");
  checkScopesPresent(raw);
  checkType(raw, options.fromAgent);
  if (isDeeperThan(raw, MAX_ENVELOPE_DEPTH)) {
    refuse("envelope_too_deep", `nested more than ${MAX_ENVELOPE_DEPTH} levels`, "");
  }
  if (new TextEncoder().encode(JSON.stringify(raw)).length > MAX_ENVELOPE_BYTES) {
    throw new LoopError("envelope_too_large", `the envelope is larger than ${MAX_ENVELOPE_BYTES} bytes`);
  }
  if (options.fromAgent) checkAgentNamesNothing(raw);
  reject(ENVELOPE, raw, "");
  if (options.fromAgent) checkAgentEnvelope(raw);
  return raw as Envelope;
}

function part(envelope: JsonObject, name: string): JsonObject {
  const value = own(envelope, name);
  return isObject(value) ? value : {};
}

function checkScopesPresent(envelope: JsonObject): void {
  for (const [place, name] of [["scope", "app_scope"], ["scope", "conversation_id"], ["target", "app_scope"]] as const) {
    const value = own(part(envelope, place), name);
    if (typeof value !== "string" || value.trim() === "") {
      refuse("scope_missing", `${place}.${name} is missing`, `/${place}/${name}`);
    }
  }
}

function checkType(envelope: JsonObject, fromAgent: boolean): void {
  const type = own(envelope, "type");
  const known: readonly unknown[] = fromAgent ? FROM_AGENT : ENVELOPE_TYPES;
  if (!known.includes(type)) refuse("envelope_type_unknown", "the envelope type is not known here", "/type");
}

function checkAgentNamesNothing(envelope: JsonObject): void {
  for (const place of ["target", "scope", "correlation", "payload"]) {
    for (const name of ["instance_id", "operation_id", "app_session_id"]) {
      if (Object.hasOwn(part(envelope, place), name)) {
        refuse("scope_forbidden", `an agent never names ${name}`, `/${place}/${name}`);
      }
    }
  }
}

function checkAgentEnvelope(envelope: JsonObject): void {
  if (part(envelope, "sender")["kind"] !== "agent") {
    refuse("scope_mismatch", "an agent sends as an agent", "/sender/kind");
  }
  if (part(envelope, "target")["kind"] === "agent") {
    refuse("scope_mismatch", "an agent's envelope goes to a runtime or an app", "/target/kind");
  }
  const type = envelope["type"] as string;
  const check = PAYLOADS[type];
  if (check !== undefined) reject(check, envelope["payload"], "/payload");
  const scopes = [part(envelope, "target"), part(envelope, "scope"), check === undefined ? {} : part(envelope, "payload")]
    .map((place) => own(place, "app_scope"))
    .filter((scope) => scope !== undefined && scope !== null);
  if (new Set(scopes).size !== 1) {
    refuse("scope_mismatch", "the app_scopes of the envelope differ", "/scope/app_scope");
  }
  const correlation = part(envelope, "correlation");
  const calls = type === "lineup.tool.invoke" || type === "lineup.tool.cancel";
  if (calls && !own(correlation, "call_id")) refuse("envelope_invalid", "a call has a call_id", "/correlation/call_id");
  if (type === "lineup.tool.invoke" && !own(correlation, "inventory_revision")) {
    refuse("envelope_invalid", "a call names the inventory revision it saw", "/correlation/inventory_revision");
  }
}

function reject(check: Check, value: Json | undefined, pointer: string): void {
  const errors: FieldError[] = [];
  check(value, pointer, errors);
  if (errors.length > 0) throw new LoopError("envelope_invalid", "the envelope breaks its schema", errors);
}

function refuse(code: ErrorCode, message: string, pointer: string): never {
  throw new LoopError(code, message, [{ pointer, message }]);
}
