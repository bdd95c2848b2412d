// Whom to speak to: the operators, those that are there first, or everybody who takes part.

import { AtSign, ChevronDown } from "lucide-react";
import type { ChatState } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import { nameOf, type Recipient } from "../model/memory.ts";

export interface RecipientPickerProps {
  readonly state: ChatState | null;
  readonly recipient: Recipient | null;
  readonly onChoose: (recipient: Recipient) => void;
}

export function RecipientPicker({ state, recipient, onChoose }: RecipientPickerProps) {
  const t = useText();
  const all = state?.recipients ?? [];
  const there = all.filter((one) => one.online);
  const away = all.filter((one) => !one.online);
  const value = recipient === null ? "" : nameOf(recipient);
  const known = value === "everyone" || value === "" || all.some((one) => nameOf(one) === value);
  const isAway = away.some((one) => nameOf(one) === value);
  const choose = (name: string) => {
    const one = all.find((candidate) => nameOf(candidate) === name);
    onChoose(one === undefined ? "everyone" : { kind: one.kind, key: one.key });
  };
  return (
    <label className="recipient" data-away={isAway}>
      <AtSign size={14} aria-hidden />
      <span className="aloud">{t("chat.recipient")}</span>
      <select value={value} onChange={(event) => choose(event.target.value)} disabled={all.length === 0}>
        {value === "" ? (
          <option value="">{t(state?.recipients_known ? "chat.recipient.nobody" : "chat.recipient.looking")}</option>
        ) : null}
        {known ? null : <option value={value}>{value.slice(value.lastIndexOf("/") + 1)}</option>}
        {there.map((one) => (
          <option key={nameOf(one)} value={nameOf(one)}>
            {one.display_name || one.key}
          </option>
        ))}
        {away.map((one) => (
          <option key={nameOf(one)} value={nameOf(one)}>
            {t("chat.recipient.away", { name: one.display_name || one.key })}
          </option>
        ))}
        {all.length > 0 ? <option value="everyone">{t("chat.recipient.everyone")}</option> : null}
      </select>
      <ChevronDown size={13} aria-hidden />
    </label>
  );
}
