// How the codes of outcomes and reasons are called. A code that has no words yet is shown as it is, readable.

import type { Text } from "../../i18n/index.ts";

const OUTCOMES = ["completed", "interrupted", "not_started"] as const;
type Outcome = (typeof OUTCOMES)[number];

const REASONS = [
  "already_active",
  "app_activation_failed",
  "app_closed",
  "app_disabled",
  "app_not_installed",
  "app_start_failed",
  "cancelled_by_agent",
  "cancelled_by_user",
  "deadline",
  "deadline_exceeded",
  "foreground_not_confirmed",
  "foreground_required",
  "handler_failed",
  "interrupted_by_agent",
  "left",
  "operation_expired",
  "permission_denied",
] as const;
type Reason = (typeof REASONS)[number];

const isOutcome = (code: string): code is Outcome => OUTCOMES.some((one) => one === code);
/** Whether a reason, or the code of an error, has words of its own here. */
export const hasWords = (code: string): code is Reason => REASONS.some((one) => one === code);
const readable = (code: string): string => code.replaceAll("_", " ");

export function outcomeText(t: Text, code: string): string {
  return isOutcome(code) ? t(`chat.record.${code}`) : readable(code);
}

export function reasonText(t: Text, code: string): string {
  return hasWords(code) ? t(`chat.reason.${code}`) : readable(code);
}
