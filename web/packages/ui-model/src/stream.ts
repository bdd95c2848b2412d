// The conversation stream (spec/protocol.md §8.4): its frames, and what a viewer makes of them. Pure; equal to
// src/lineloop/protocol/sse.py by spec/golden/sse.

import { LoopError } from "./errors.ts";
import { applyPatch, type Content, type Patch } from "./patches.ts";

export interface StreamEvent {
  readonly event: string;
  readonly id: string;
  readonly data: unknown;
}

export interface StreamMessage {
  readonly id: string;
  readonly conversation_id: string;
  readonly revision: number;
  readonly ordinal: number;
  readonly status: string;
  readonly content: Content;
}

export interface View {
  readonly messages: ReadonlyMap<string, StreamMessage>;
  readonly lastEventId: string;
  /** Messages that were asked for and have not come yet: one gap is asked for once. */
  readonly missing: ReadonlySet<string>;
  readonly ordinals: ReadonlyMap<string, number>;
}

export const EMPTY_VIEW: View = { messages: new Map(), lastEventId: "", missing: new Set(), ordinals: new Map() };

/** The events of whole frames, as the HTML standard reads them. */
export function decodeEvents(text: string): StreamEvent[] {
  const frames = text.replaceAll("\r\n", "\n").replaceAll("\r", "\n").split("\n\n").slice(0, -1);
  return frames.flatMap((frame) => {
    const fields = new Map<string, string>();
    for (const line of frame.split("\n")) {
      const colon = line.indexOf(":");
      const name = colon < 0 ? line : line.slice(0, colon);
      if (name === "") continue;
      const value = colon < 0 ? "" : line.slice(line.charAt(colon + 1) === " " ? colon + 2 : colon + 1);
      const before = fields.get("data");
      fields.set(name, name === "data" && before !== undefined ? `${before}\n${value}` : value);
    }
    const data = fields.get("data");
    if (data === undefined) return [];
    return [{ event: fields.get("event") ?? "message", id: fields.get("id") ?? "", data: JSON.parse(data) as unknown }];
  });
}

/** The view after one event, and whether the viewer must resync now. The given view is never changed. */
export function takeEvent(view: View, event: StreamEvent): { readonly view: View; readonly resync: boolean } {
  const seen = event.id === "" ? view : { ...view, lastEventId: event.id };
  switch (event.event) {
    case "message":
      return { view: takeMessage(seen, (event.data as { message: StreamMessage }).message), resync: false };
    case "patch": {
      const { message_id: messageId, patch } = event.data as { message_id: string; patch: Patch };
      return takePatch(seen, messageId, patch);
    }
    case "ping":
      return takeOrdinals(seen, (event.data as { ordinals: Readonly<Record<string, number>> }).ordinals);
    default:
      return { view: seen, resync: false };
  }
}

function takeMessage(view: View, message: StreamMessage): View {
  const highest = Math.max(view.ordinals.get(message.conversation_id) ?? 0, message.ordinal);
  const ordinals = new Map(view.ordinals).set(message.conversation_id, highest);
  const known = view.messages.get(message.id);
  const older =
    known !== undefined &&
    (message.revision < known.revision || (known.status !== "streaming" && message.status === "streaming"));
  if (older) return { ...view, ordinals };
  const missing = new Set(view.missing);
  missing.delete(message.id);
  return { ...view, ordinals, missing, messages: new Map(view.messages).set(message.id, message) };
}

function takePatch(view: View, messageId: string, patch: Patch): { readonly view: View; readonly resync: boolean } {
  const known = view.messages.get(messageId);
  if (known === undefined || patch.seq > known.revision + 1) return askFor(view, messageId);
  if (patch.seq <= known.revision) return { view, resync: false };
  try {
    const message = { ...known, content: applyPatch(known.content, patch), revision: patch.seq };
    return { view: { ...view, messages: new Map(view.messages).set(messageId, message) }, resync: false };
  } catch (error) {
    if (error instanceof LoopError) return askFor(view, messageId);
    throw error;
  }
}

function takeOrdinals(
  view: View,
  told: Readonly<Record<string, number>>,
): { readonly view: View; readonly resync: boolean } {
  const behind = Object.entries(told).filter(([id, highest]) => highest > (view.ordinals.get(id) ?? 0));
  if (behind.length === 0) return { view, resync: false };
  return { view: { ...view, ordinals: new Map([...view.ordinals, ...behind]) }, resync: true };
}

function askFor(view: View, messageId: string): { readonly view: View; readonly resync: boolean } {
  if (view.missing.has(messageId)) return { view, resync: false };
  return { view: { ...view, missing: new Set(view.missing).add(messageId) }, resync: true };
}
