// The patch reducer: how a message's content grows (spec/protocol.md §3). Pure, and equal to
// src/lineloop/protocol/patches.py by spec/golden/patches. Every step copies only the path it changes.

import { LoopError } from "./errors.ts";
import { isObject, isWhole, own, type Json, type JsonObject } from "./json.ts";

export type PatchOp = "start" | "set" | "append" | "error" | "ping" | "end";
export type Block = JsonObject & { readonly id: string; readonly type: string };
export type Content = JsonObject & {
  readonly version: string;
  readonly biz: string;
  readonly meta: JsonObject;
  readonly blocks: readonly Block[];
};
export type Patch = JsonObject & { readonly op: PatchOp; readonly seq: number };

export const CONTENT_VERSION = "1.1";

const FIELDS = new Set(["op", "seq", "mask", "block", "meta", "model", "ts"]);
const CARRIERS: Readonly<Record<PatchOp, readonly string[]>> = {
  start: ["model"],
  set: ["block", "meta"],
  append: ["block", "meta"],
  error: ["meta"],
  ping: [],
  end: ["meta"],
};
const FIXED_BLOCK_FIELDS = new Set(["id", "ref"]);
const UNSAFE_SEGMENTS = new Set(["__proto__", "constructor", "prototype"]);

export function emptyContent(biz = "chat"): Content {
  return { version: CONTENT_VERSION, biz, meta: {}, blocks: [] };
}

/** The content after `patch`; the given content is never changed. Throws LoopError `patch_invalid`. */
export function applyPatch(content: Content, patch: unknown): Content {
  const checked = checkPatch(patch);
  const meta = own(checked, "meta");
  switch (checked.op) {
    case "ping":
      return { ...content };
    case "start":
      return started(content, own(checked, "model"));
    case "error":
      return withMeta(content, { error: (meta as JsonObject)["error"] as Json });
    case "end":
      return withMeta(content, isObject(meta) ? meta : {});
    default:
      return meta === undefined
        ? { ...content, blocks: blocksChanged(content.blocks, checked) }
        : { ...content, meta: metaChanged(content.meta, checked, meta as JsonObject) };
  }
}

/** Applies patches in order. Throws at the first that does not apply. */
export function fold(content: Content, patches: Iterable<unknown>): Content {
  let result = content;
  for (const patch of patches) result = applyPatch(result, patch);
  return result;
}

/** Everything about a patch that can be judged without the content (§3.2). */
export function checkPatch(patch: unknown): Patch {
  if (!isObject(patch)) refuse("a patch is an object", "");
  for (const name of Object.keys(patch)) {
    if (!FIELDS.has(name)) refuse(`a patch has no field '${name}'`, `/${name}`);
  }
  const op = own(patch, "op");
  if (typeof op !== "string" || !Object.hasOwn(CARRIERS, op)) {
    refuse("op must be one of start, set, append, error, ping, end", "/op");
  }
  const seq = own(patch, "seq");
  if (!isWhole(seq) || seq < 1) refuse("seq is an integer from 1", "/seq");
  const checked = patch as Patch;
  checkCarrier(checked);
  checkMask(checked);
  return checked;
}

function checkCarrier(patch: Patch): void {
  const { op } = patch;
  const carried = ["block", "meta", "model"].filter((name) => Object.hasOwn(patch, name));
  for (const name of carried) {
    if (!CARRIERS[op].includes(name)) refuse(`${op} does not take ${name}`, `/${name}`);
    if (!isObject(patch[name])) refuse(`${name} is an object`, `/${name}`);
  }
  if (op === "set" || op === "append") {
    if (carried.length !== 1) refuse(`${op} takes exactly one of block and meta`, "");
    const block = own(patch, "block");
    if (isObject(block) && !isName(own(block, "id"))) refuse("a block has a non-empty string id", "/block/id");
  }
  if (op === "error") {
    const meta = own(patch, "meta");
    if (!isObject(meta) || !isObject(own(meta, "error"))) {
      refuse("error carries an object meta.error", "/meta/error");
    }
    if (Object.keys(meta).length !== 1) refuse("error carries meta.error and nothing else", "/meta");
  }
}

function checkMask(patch: Patch): void {
  const { op } = patch;
  const mask = own(patch, "mask");
  if (mask === undefined) {
    if (op === "append") refuse("append needs a mask", "/mask");
    return;
  }
  if (op === "error" && mask === "meta.error") return;
  if (typeof mask !== "string") refuse("mask is a string", "/mask");
  if (op !== "set" && op !== "append") refuse(`${op} does not take a mask`, "/mask");
  const [root = "", ...path] = mask.split(".");
  if (!Object.hasOwn(patch, root) || path.length === 0 || path.includes("")) {
    refuse("mask is block.<field>… or meta.<field>…, as carried", "/mask");
  }
  if (path.some((segment) => UNSAFE_SEGMENTS.has(segment))) {
    refuse("mask names a field that no content may have", "/mask");
  }
  if (root === "block" && FIXED_BLOCK_FIELDS.has(path[0] as string)) {
    refuse(`block.${path[0]} cannot be patched`, "/mask");
  }
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function checkBlock(block: unknown, pointer: string): Block {
  if (!isObject(block)) refuse("a block is an object", pointer);
  for (const name of ["id", "type"]) {
    if (!isName(own(block, name))) refuse(`a block has a non-empty string ${name}`, `${pointer}/${name}`);
  }
  return block as Block;
}

/** The outer shape of content: version, biz, meta, blocks with unique ids (§3.1). */
export function checkModel(content: unknown, pointer = ""): Content {
  if (!isObject(content)) refuse("content is an object", pointer);
  if (own(content, "version") !== CONTENT_VERSION) {
    refuse(`content version must be '${CONTENT_VERSION}'`, `${pointer}/version`);
  }
  if (!isName(own(content, "biz"))) refuse("biz is a non-empty string", `${pointer}/biz`);
  if (!isObject(own(content, "meta"))) refuse("meta is an object", `${pointer}/meta`);
  const blocks = own(content, "blocks");
  if (!Array.isArray(blocks)) refuse("blocks is a list", `${pointer}/blocks`);
  const seen = new Set<string>();
  blocks.forEach((raw: unknown, index) => {
    const block = checkBlock(raw, `${pointer}/blocks/${index}`);
    if (seen.has(block.id)) refuse(`block id '${block.id}' is not unique`, `${pointer}/blocks/${index}/id`);
    seen.add(block.id);
  });
  return content as Content;
}

function started(content: Content, model: Json | undefined): Content {
  return model === undefined ? { ...content } : { ...checkModel(model, "/model") };
}

function withMeta(content: Content, changes: JsonObject): Content {
  return Object.keys(changes).length === 0 ? { ...content } : { ...content, meta: { ...content.meta, ...changes } };
}

function metaChanged(meta: JsonObject, patch: Patch, carrier: JsonObject): JsonObject {
  const path = pathOf(patch);
  return path === undefined ? { ...carrier } : changedAt(meta, path, carried(carrier, path), patch.op);
}

function blocksChanged(blocks: readonly Block[], patch: Patch): readonly Block[] {
  const carrier = patch["block"] as JsonObject;
  const place = blocks.findIndex((known) => known.id === carrier["id"]);
  const path = pathOf(patch);
  if (path === undefined) {
    const block = checkBlock(carrier, "/block");
    return place < 0 ? [...blocks, block] : blocks.with(place, block);
  }
  const known = blocks[place];
  if (known === undefined) refuse(`there is no block '${String(carrier["id"])}'`, "/block/id");
  return blocks.with(place, checkBlock(changedAt(known, path, carried(carrier, path), patch.op), "/block"));
}

function pathOf(patch: Patch): readonly string[] | undefined {
  const mask = own(patch, "mask");
  return typeof mask === "string" ? mask.split(".").slice(1) : undefined;
}

function carried(carrier: JsonObject, path: readonly string[]): Json {
  let value: Json = carrier;
  for (const segment of path) {
    const next: Json | undefined = isObject(value) ? own(value, segment) : undefined;
    if (next === undefined) refuse("the patch does not carry the field that its mask names", "/mask");
    value = next;
  }
  return value;
}

/** `target` with the field at `path` set or appended to; only set makes objects missing on the way. */
function changedAt(target: Json | undefined, path: readonly string[], value: Json, op: PatchOp): JsonObject {
  if (!isObject(target)) refuse("the mask leads through something that is not an object", "/mask");
  const [segment = "", ...rest] = path;
  const old = own(target, segment);
  if (rest.length > 0) {
    if (old === undefined && op === "append") refuse("append found nothing at its mask", "/mask");
    return { ...target, [segment]: changedAt(old === undefined ? {} : old, rest, value, op) };
  }
  return { ...target, [segment]: op === "set" ? value : joined(old, value) };
}

function joined(old: Json | undefined, more: Json): Json {
  if (typeof old === "string" && typeof more === "string") return old + more;
  if (Array.isArray(old) && Array.isArray(more)) return [...(old as Json[]), ...(more as Json[])];
  return refuse("append joins two strings or two lists", "/mask");
}

function refuse(message: string, pointer: string): never {
  throw new LoopError("patch_invalid", message, [{ pointer, message }]);
}
