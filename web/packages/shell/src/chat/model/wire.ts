// What the chat reads from the Runtime (spec/protocol.md §2, §6, §7): the shapes, and small questions about them.

import { isObject, type Block, type Content, type Json, type JsonObject } from "@lineloop/ui-model";
import type { ActorName } from "../../runtime/chat-core.ts";

export type Status = "streaming" | "completed" | "failed" | "cancelled";

export interface Message {
  readonly id: string;
  readonly conversation_id: string;
  readonly actor: ActorName;
  readonly on_behalf_of?: ActorName | null;
  readonly target: ActorName | null;
  readonly key: string;
  readonly reply_to_id: string | null;
  readonly purpose: string;
  readonly status: Status;
  readonly revision: number;
  readonly ordinal: number;
  readonly content: Content;
  readonly created_at: string;
  readonly updated_at: string;
  /** Its content was shortened because it is too large for a frame. */
  readonly cut?: true;
}

export interface Receipt {
  readonly stage: string;
  readonly sequence: number;
  readonly at: string;
  readonly reason?: string | null;
  readonly facts?: JsonObject | null;
}

export interface Call {
  readonly call_id: string;
  readonly conversation_id: string;
  readonly agent: ActorName;
  readonly run_message_id: string | null;
  readonly app_scope: string;
  readonly app_title: string;
  readonly method: string;
  readonly title: string;
  readonly params: JsonObject;
  readonly state: string;
  readonly receipts: readonly Receipt[];
  readonly result: Json;
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly accepted_at: string;
  readonly ended_at: string | null;
  readonly ends_at: string | null;
  readonly operation?: { readonly started_at: string } | null;
}

/** What the person said, as the Runtime holds it until the server has stored it. */
export interface HeldSaying {
  readonly key: string;
  readonly conversation_id: string;
  /** `answer`: to the question `question_id`; `text` is empty then. */
  readonly kind?: "speak" | "answer";
  readonly question_id?: string;
  readonly state: "pending" | "sent" | "refused" | "forgotten";
  readonly code?: string | null;
  readonly text: string;
  readonly target: ActorName | null;
  readonly reply_to_id: string | null;
  readonly created_at: string;
}

export interface ProcessRow {
  readonly conversation_id: string;
  readonly actor: ActorName;
}

export interface Snapshot {
  readonly messages: readonly Message[];
  readonly more: boolean;
  readonly calls: readonly Call[];
  readonly sayings: readonly HeldSaying[];
  readonly processes?: readonly ProcessRow[];
}

export const at = (time: string): number => Date.parse(time);

export function text(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

export const isStreaming = (message: Message): boolean => message.status === "streaming";

/** Who speaks: a Run speaks for the operator that asked for it. */
export const speakerOf = (message: Message): ActorName => message.on_behalf_of ?? message.actor;

/** The operator behind a name: `operator/<key>` itself, or the owner of `operator/<key>/<role>`; null for others. */
export function operatorOf(actor: ActorName | null | undefined): string | null {
  if (!actor) return null;
  if (actor.kind === "operator") return actor.key;
  return actor.kind.startsWith("operator/") ? (actor.kind.split("/")[1] ?? null) : null;
}

/** The person's message that a Run works on. */
export const inputOf = (message: Message): string | null => text(message.content.meta["input_id"]);

/** Whether the main pane shows it; the rest is traffic between programs (§2.3). */
export function isShown(message: Message): boolean {
  return message.purpose !== "envelope" && message.purpose !== "inventory";
}

/**
 * Whose work stands behind a message: of what the person said, its target; of an operator's word, that operator.
 * What was said to everybody or to a harness has nobody's.
 */
export function detailTarget(message: Message): string | null {
  if (message.actor.kind === "user") return operatorOf(message.target);
  return operatorOf(message.target) ?? operatorOf(speakerOf(message));
}

/** The public reason of a failed message. */
export function errorOf(message: Message): { readonly code: string; readonly message: string } | null {
  const error = message.content.meta["error"];
  if (!isObject(error)) return null;
  return { code: text(error["code"]) ?? "internal", message: text(error["message"]) ?? "" };
}

export function blockText(block: Block): string {
  switch (block.type) {
    case "text":
    case "markdown":
    case "code":
      return text(block["content"]) ?? "";
    case "result":
      return typeof block["content"] === "string" ? block["content"] : JSON.stringify(block["content"], null, 2);
    case "ask":
    case "confirm":
      return text(block["text"]) ?? "";
    case "human_reply":
      return text(block["label"]) ?? text(block["value"]) ?? "";
    default:
      return "";
  }
}

/** The blocks to show: a text result that only repeats what stands above it says nothing new. */
export function shownBlocks(content: Content): readonly Block[] {
  const parts: string[] = [];
  return content.blocks.filter((block) => {
    const said = blockText(block);
    if (block.type === "result" && block["format"] === "text" && said === parts.join("\n\n")) return false;
    if (said !== "") parts.push(said);
    return true;
  });
}

/** What Copy copies. */
export function readable(content: Content): string {
  return shownBlocks(content)
    .map(blockText)
    .filter((part) => part !== "")
    .join("\n\n");
}
