// A question's card and its reply, read from their blocks (spec/protocol.md §6.1). Agents cannot write these blocks,
// but what cannot be read is said to be so; it never breaks the page.

import { isObject, type Block, type Json } from "@lineloop/ui-model";
import type { Text } from "../../i18n/index.ts";
import { text } from "./wire.ts";

export interface Choice {
  readonly value: string;
  readonly label: string;
}

export type Outcome = "pending" | "success" | "dismissed" | "timeout" | "failure";

export interface QuestionTerms {
  readonly kind: "ask" | "confirm";
  readonly text: string;
  readonly choices: readonly Choice[];
  /** Whether one's own words are an answer. */
  readonly freeText: boolean;
  readonly state: Outcome;
  readonly value: string | null;
  readonly deadlineAt: string | null;
}

export interface Reply {
  readonly questionId: string;
  readonly kind: string;
  readonly question: string;
  readonly choices: readonly Choice[];
  readonly dismissed: boolean;
  readonly value: string | null;
  readonly label: string | null;
}

const ACCEPTED = "accepted";
export const DECLINED = "declined";

/** What a choice is called: the two that the server names where an agent gave no names are said in our words. */
export function labelOf(t: Text, kind: string, { value, label }: Choice): string {
  if (kind === "confirm" && value === ACCEPTED && label === "Yes") return t("chat.card.yes");
  if (kind === "confirm" && value === DECLINED && label === "No") return t("chat.card.no");
  return label;
}

const OUTCOMES: readonly string[] = ["pending", "success", "dismissed", "timeout", "failure"];

/** null: the block cannot be displayed. */
export function readQuestion(block: Block): QuestionTerms | null {
  const choices = readChoices(block["choices"]);
  const said = text(block["text"]);
  const state = block["state"] ?? "pending";
  if (choices === null || said === null || typeof state !== "string" || !OUTCOMES.includes(state)) return null;
  const kind = block.type === "confirm" ? "confirm" : "ask";
  if (kind === "confirm" && choices.length !== 2) return null;
  return {
    kind,
    text: said,
    choices,
    freeText: kind === "ask" && (block["allow_other"] === true || choices.length === 0),
    state: state as Outcome,
    value: text(block["value"]),
    deadlineAt: text(block["deadline_at"]),
  };
}

/** null: the block cannot be displayed. */
export function readReply(block: Block): Reply | null {
  const choices = readChoices(block["choices"]);
  const question = text(block["question"]);
  const questionId = text(block["question_id"]);
  if (choices === null || question === null || questionId === null) return null;
  const value = text(block["value"]);
  const dismissed = block["dismissed"] === true || value === null;
  const kind = text(block["kind"]) ?? "ask";
  const label = dismissed ? null : (text(block["label"]) ?? value);
  return { questionId, kind, question, choices, dismissed, value: dismissed ? null : value, label };
}

function readChoices(raw: Json | undefined): readonly Choice[] | null {
  if (raw === undefined || raw === null) return [];
  if (!Array.isArray(raw)) return null;
  const seen = new Set<string>();
  const choices: Choice[] = [];
  for (const one of raw as readonly Json[]) {
    if (!isObject(one)) return null;
    const value = text(one["value"]);
    const label = text(one["label"]);
    if (value === null || label === null || seen.has(value)) return null;
    seen.add(value);
    choices.push({ value, label });
  }
  return choices;
}
