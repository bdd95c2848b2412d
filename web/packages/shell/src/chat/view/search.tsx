// Ctrl-K: a conversation by its title.

import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import type { ChatState, ConversationRow } from "../../runtime/chat-core.ts";
import { useForms, useText } from "../../i18n/index.ts";
import { at } from "../model/wire.ts";
import { isComposing } from "./composing.ts";
import { titleOf } from "./conversation-list.tsx";

const SHOWN_AT_MOST = 12;

export interface SearchProps {
  readonly state: ChatState | null;
  readonly onOpen: (conversationId: string) => void;
  readonly onClose: () => void;
}

export function Search({ state, onOpen, onClose }: SearchProps) {
  const t = useText();
  const forms = useForms();
  const list = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState("");
  const [place, setPlace] = useState(0);
  const found = find(state?.conversations ?? [], words).slice(0, SHOWN_AT_MOST);
  const current = found[Math.min(place, found.length - 1)];

  useEffect(() => {
    const element = dialog.current;
    if (element !== null && !element.open) element.showModal();
  }, []);

  const open = (row: ConversationRow) => {
    onOpen(row.id);
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setPlace((before) => Math.max(0, Math.min(before + step, found.length - 1)));
    } else if (event.key === "Enter" && current !== undefined) {
      event.preventDefault();
      open(current);
    }
  };

  return (
    <dialog
      ref={dialog}
      className="search"
      aria-label={t("chat.search")}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) onClose();
      }}
    >
      <input
        type="text"
        role="combobox"
        autoFocus
        aria-expanded={found.length > 0}
        aria-controls={list}
        aria-activedescendant={current === undefined ? undefined : `${list}-${current.id}`}
        aria-label={t("chat.search")}
        placeholder={t("chat.search")}
        value={words}
        onChange={(event) => {
          setWords(event.target.value);
          setPlace(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id={list} role="listbox" aria-label={t("chat.conversations")}>
        {found.map((row) => (
          <li
            key={row.id}
            id={`${list}-${row.id}`}
            role="option"
            aria-selected={row === current}
            onClick={() => open(row)}
          >
            <span className="conversation-title">{titleOf(row.title, t("chat.untitled"))}</span>
            {row.last_at !== null && <time>{forms.day(at(row.last_at), Date.now())}</time>}
          </li>
        ))}
      </ul>
      {found.length === 0 ? <p className="conversations-none">{t("chat.search_none")}</p> : null}
    </dialog>
  );
}

/** Conversations whose title has every word, in any case. */
export function find(rows: readonly ConversationRow[], words: string): readonly ConversationRow[] {
  const wanted = words.toLocaleLowerCase().split(/\s+/).filter((word) => word !== "");
  return rows.filter((row) => {
    const title = row.title.toLocaleLowerCase();
    return wanted.every((word) => title.includes(word));
  });
}
