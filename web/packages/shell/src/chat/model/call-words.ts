// How a call stands, for one line of words. It runs only after its receipt `started`; before that it is on its way.

import { isObject } from "@lineloop/ui-model";
import { inLanguage } from "../../i18n/bilingual.ts";
import type { Language, Text } from "../../i18n/index.ts";
import { hasWords, reasonText } from "./outcome-words.ts";
import { labelIn } from "./record.ts";
import { at, text, type Call } from "./wire.ts";

export type CallPhase =
  | "asked"
  | "consent"
  | "foreground"
  | "starting"
  | "ready"
  | "working"
  | "running"
  | "done"
  | "ended_early"
  | "not_started"
  | "failed"
  | "cancelled";

const BY_STATE: Readonly<Record<string, CallPhase>> = {
  awaiting_consent: "consent",
  waiting_activation: "starting",
  waiting_foreground: "foreground",
  dispatched: "working",
  operating: "working",
  failed: "failed",
  cancelled: "cancelled",
};
const BY_STAGE: Readonly<Record<string, CallPhase>> = {
  starting: "starting",
  activation_ready: "ready",
  activation_failed: "failed",
  activation_cancelled: "cancelled",
};

const stageOf = (call: Call): string => call.receipts.at(-1)?.stage ?? "";
const hasStarted = (call: Call): boolean => call.receipts.some((receipt) => receipt.stage === "started");
const outcomeOf = (call: Call): string | null => (isObject(call.result) ? text(call.result["outcome"]) : null);

export function phaseOf(call: Call): CallPhase {
  if (call.state === "succeeded") {
    const outcome = outcomeOf(call);
    if (outcome === "not_started") return "not_started";
    return hasStarted(call) && outcome !== null && outcome !== "completed" ? "ended_early" : "done";
  }
  const terminal = call.state === "failed" || call.state === "cancelled";
  if (!terminal && hasStarted(call)) return "running";
  return BY_STATE[call.state] ?? BY_STAGE[stageOf(call)] ?? "asked";
}

export const isLive = (call: Call): boolean => call.ended_at === null;

/** How long until a running operation ends; null when it has no end or does not run. */
export function remainingOf(call: Call, now: number): number | null {
  if (phaseOf(call) !== "running" || call.ends_at === null) return null;
  const end = at(call.ends_at);
  const began = call.operation?.started_at;
  // The clock here ticks once a second: never more than the whole of it.
  return Math.max(end - Math.max(now, began ? at(began) : now), 0);
}

/** How long it took; null while it is not over. */
export function durationOf(call: Call): number | null {
  const elapsed = isObject(call.result) ? call.result["elapsed_ms"] : undefined;
  if (typeof elapsed === "number") return elapsed;
  return call.ended_at === null ? null : at(call.ended_at) - at(call.accepted_at);
}

/** What the person calls it: the label in its arguments, else the tool's title. */
export function labelOf(call: Call, language: Language): string {
  const named = labelIn(call.params);
  return named === "" ? inLanguage(call.title, language) : named;
}

/** Why it ended as it did, in a few plain words; empty when there is nothing to add. */
export function reasonOf(call: Call, t: Text): string {
  if (call.error !== null) return hasWords(call.error.code) ? reasonText(t, call.error.code) : call.error.message || call.error.code;
  const reason = isObject(call.result) ? text(call.result["reason"]) : null;
  return reasonText(t, reason ?? call.receipts.findLast((receipt) => receipt.reason)?.reason ?? "");
}
