// What people and agents are called here.

import { useCallback } from "react";
import type { ActorName, ChatState } from "../../runtime/chat-core.ts";
import { useStore } from "../../runtime/store.ts";
import { useText } from "../../i18n/index.ts";
import { operatorOf } from "../model/wire.ts";
import { useConversation } from "./context.ts";

export function nameIn(state: ChatState | null, operator: string): string {
  const known = state?.recipients.find((one) => one.kind === "operator" && one.key === operator);
  return known !== undefined && known.display_name !== "" ? known.display_name : operator;
}

export type NameOf = (actor: ActorName) => string;

export function useNameOf(): NameOf {
  const t = useText();
  const state = useStore(useConversation().core.state);
  return useCallback(
    (actor) => {
      if (actor.kind === "user") return t("chat.you");
      if (actor.kind === "runtime") return t("chat.device");
      const operator = operatorOf(actor);
      return operator === null ? actor.key : nameIn(state, operator);
    },
    [t, state],
  );
}

/** `7`, `0:07`, `19:59`, `1:05:00`; a begun second counts whole. */
export function clockText(milliseconds: number): string {
  const total = Math.max(Math.ceil(milliseconds / 1000), 0);
  const seconds = String(total % 60).padStart(2, "0");
  const minutes = Math.floor(total / 60) % 60;
  const hours = Math.floor(total / 3600);
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${seconds}` : `${minutes}:${seconds}`;
}
