// What the Runtime projects for the frame around the chat (spec/protocol.md §10.3), read so that a missing or
// unknown field never breaks the page. Texts of apps stay texts: they are only ever shown as such.

import { isObject, type JsonObject } from "@lineloop/ui-model";
import type { ModelChoice } from "../runtime/chat-core.ts";

export interface Instance {
  readonly instance_id: string;
  readonly conversation_id: string;
  readonly app_scope: string;
  readonly title: string;
  readonly state: string;
  readonly activation_id: string | null;
  readonly generation: number;
  /** Whether the Runtime has a page's word that a person sees it. */
  readonly confirmed: boolean;
  /** Whether it has a surface to be shown in a frame. */
  readonly surface: boolean;
}

export interface Foreground {
  readonly conversation_id: string;
  readonly instance_id: string;
}

export interface Workspace {
  /** Whether this page is the one that confirms what is seen. */
  readonly lease: boolean;
  readonly foreground: Foreground | null;
  /** The instances of each conversation, the last one on top. */
  readonly stacks: ReadonlyMap<string, readonly Instance[]>;
  readonly closing: readonly Instance[];
}

export interface AppRow {
  readonly app_scope: string;
  readonly title: string;
  readonly version: string;
  readonly kind: string;
  readonly enabled: boolean;
  readonly unavailable: string | null;
  readonly icon: string | null;
  readonly has_surface: boolean;
  readonly tools: number;
}

export interface Apps {
  readonly apps: readonly AppRow[];
  readonly instances: readonly Instance[];
}

export interface Sheet {
  readonly call_ref: string;
  readonly conversation_id: string;
  readonly agent: string;
  readonly app_scope: string;
  readonly app_title: string;
  readonly publisher: string | null;
  readonly tool_title: string;
  readonly risk: string;
  readonly params: JsonObject;
}

export interface FoundServer {
  readonly id: string;
  readonly label: string;
  readonly base_url: string;
  readonly models: readonly string[];
}

export const NO_WORKSPACE: Workspace = { lease: false, foreground: null, stacks: new Map(), closing: [] };
export const NO_APPS: Apps = { apps: [], instances: [] };

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const textOrNull = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
const whole = (value: unknown): number => (Number.isSafeInteger(value) ? (value as number) : 0);

function objects(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function readInstance(value: JsonObject): Instance {
  return {
    instance_id: text(value["instance_id"]),
    conversation_id: text(value["conversation_id"]),
    app_scope: text(value["app_scope"]),
    title: text(value["title"]) || text(value["app_scope"]),
    state: text(value["state"]),
    activation_id: textOrNull(value["activation_id"]),
    generation: whole(value["generation"]),
    confirmed: value["confirmed"] === true,
    surface: value["surface"] === true,
  };
}

const readInstances = (value: unknown) => objects(value).map(readInstance).filter((one) => one.instance_id !== "");

export function readWorkspace(payload: JsonObject): Workspace {
  const conversations = isObject(payload["conversations"]) ? payload["conversations"] : {};
  const stacks = new Map<string, readonly Instance[]>();
  for (const [id, value] of Object.entries(conversations)) {
    if (isObject(value)) stacks.set(id, readInstances(value["stack"]));
  }
  const shown = payload["foreground"];
  const foreground = isObject(shown)
    ? { conversation_id: text(shown["conversation_id"]), instance_id: text(shown["instance_id"]) }
    : null;
  return { lease: payload["lease"] === true, foreground, stacks, closing: readInstances(payload["closing"]) };
}

export function readApps(payload: JsonObject): Apps {
  const apps = objects(payload["apps"]).map((app) => ({
    app_scope: text(app["app_scope"]),
    title: text(app["title"]) || text(app["app_scope"]),
    version: text(app["version"]),
    kind: text(app["kind"]),
    enabled: app["enabled"] === true,
    unavailable: textOrNull(app["unavailable"]),
    icon: textOrNull(app["icon"]),
    has_surface: app["has_surface"] === true,
    tools: whole(app["tools"]),
  }));
  return { apps: apps.filter((app) => app.app_scope !== ""), instances: readInstances(payload["instances"]) };
}

/** Who asks, as one line: an operator by its key, anybody else as `kind/key`. */
function agentName(value: unknown): string {
  const whole = isObject(value) ? `${text(value["kind"])}/${text(value["key"])}` : text(value);
  return /^operator\/([^/]+)$/.exec(whole)?.[1] ?? whole;
}

export function readSheets(payload: JsonObject): readonly Sheet[] {
  return objects(payload["sheets"])
    .map((sheet) => ({
      call_ref: text(sheet["call_ref"]),
      conversation_id: text(sheet["conversation_id"]),
      agent: agentName(sheet["agent"]),
      app_scope: text(sheet["app_scope"]),
      app_title: text(sheet["app_title"]) || text(sheet["app_scope"]),
      publisher: textOrNull(sheet["publisher"]),
      tool_title: text(sheet["tool_title"]),
      risk: text(sheet["risk"]),
      params: isObject(sheet["params"]) ? sheet["params"] : {},
    }))
    .filter((sheet) => sheet.call_ref !== "");
}

export function readModel(value: unknown): ModelChoice | null {
  if (!isObject(value) || typeof value["target"] !== "string") return null;
  const label = text(value["label"]) || value["target"];
  return { target: value["target"], label, chosen: value["chosen"] === true };
}

/** A browser that may open this device; times in epoch milliseconds. */
export interface BrowserKey {
  readonly name: string;
  /** What the browser says of itself; empty when it said nothing. */
  readonly browser: string;
  readonly created_at: number;
  readonly used_at: number;
  /** It is the one that asks. */
  readonly here: boolean;
  /** A page of it is open now. */
  readonly open: boolean;
}

export function readKeys(payload: JsonObject): readonly BrowserKey[] {
  return objects(payload["keys"]).map((key) => ({
    name: text(key["name"]),
    browser: text(key["browser"]),
    created_at: Date.parse(text(key["created_at"])),
    used_at: Date.parse(text(key["used_at"])),
    here: key["here"] === true,
    open: key["open"] === true,
  }));
}

export function readServers(payload: JsonObject): readonly FoundServer[] {
  return objects(payload["servers"]).map((server) => ({
    id: text(server["id"]),
    label: text(server["label"]) || text(server["id"]),
    base_url: text(server["base_url"]),
    models: Array.isArray(server["models"]) ? server["models"].filter((name) => typeof name === "string") : [],
  }));
}

/** All instances that may have a frame: of every stack, once. */
export function liveInstances(workspace: Workspace): Instance[] {
  return [...workspace.stacks.values()].flat();
}

export function foregroundInstance(workspace: Workspace): Instance | null {
  const shown = workspace.foreground;
  if (shown === null) return null;
  const stack = workspace.stacks.get(shown.conversation_id) ?? [];
  return stack.find((instance) => instance.instance_id === shown.instance_id) ?? null;
}
