// Why something that the person asked for was not taken, in a sentence. The code itself is shown small beside it.

import type { Text } from "../../i18n/index.ts";

const REASONS = {
  bridge_invalid: "too_long",
  limit_exceeded: "too_long",
  envelope_too_large: "too_long",
  connection_lost: "gone",
  deadline_exceeded: "gone",
  request_timeout: "gone",
  storage_unavailable: "no_room",
  overloaded: "busy",
  harness_capacity_exceeded: "busy",
  unauthorized: "not_allowed",
  forbidden: "not_allowed",
  not_participant: "not_allowed",
  not_found: "not_there",
  conversation_not_found: "not_there",
  message_not_found: "not_there",
  question_not_found: "not_there",
  run_not_found: "not_there",
  answer_conflict: "answered",
  question_conflict: "answered",
  answer_invalid: "no_choice",
} as const;
type Code = keyof typeof REASONS;

const isKnown = (code: string): code is Code => Object.hasOwn(REASONS, code);

export function refusalText(t: Text, code: string | null): string {
  return t(`chat.refused.${code !== null && isKnown(code) ? REASONS[code] : "other"}`);
}
