// An app's static copy of what an operation came to (a block of the type `record`), read from the message.

import { isObject, type Block, type Content, type JsonObject } from "@lineloop/ui-model";
import { text } from "./wire.ts";

export interface OperationRecord {
  readonly app_scope: string;
  readonly app_title: string;
  /** What the person calls it; empty when it has no name. */
  readonly label: string;
  readonly outcome: string;
  /** A code; empty when there is nothing to add to the outcome. */
  readonly reason: string;
  readonly elapsed_ms: number | null;
  /** How long it was meant to be. */
  readonly duration_ms: number | null;
}

/** null when it is no record that can be shown. */
export function readRecord(block: Block): OperationRecord | null {
  const [app_scope, app_title, outcome] = [text(block["app_scope"]), text(block["title"]), text(block["outcome"])];
  if (app_scope === null || app_title === null || outcome === null) return null;
  return {
    app_scope,
    app_title,
    label: labelIn(isObject(block["params"]) ? block["params"] : {}),
    outcome,
    reason: text(block["reason"]) ?? "",
    elapsed_ms: span(block["elapsed_ms"]),
    duration_ms: span(block["duration_ms"]),
  };
}

/** What the person calls it, by the arguments of the call; else empty. */
export function labelIn(params: JsonObject): string {
  const named = [params["label"], params["title"]].find((one) => typeof one === "string" && one.trim() !== "");
  return typeof named === "string" ? named.trim() : "";
}

const span = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : null;

/** The blocks without the sentences that only say in words what the record beside them shows. */
export function withoutRecordWords(content: Content, blocks: readonly Block[]): readonly Block[] {
  const scope = text(content.meta["record"]);
  const shown = blocks.some((block) => block.type === "record" && block["app_scope"] === scope && readRecord(block) !== null);
  return shown ? blocks.filter((block) => block.type !== "text") : blocks;
}
