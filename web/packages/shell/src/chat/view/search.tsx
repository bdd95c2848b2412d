// Ctrl-K: a conversation by its title, a message by its words.

import { LoopError, isObject, type JsonObject } from "@lineloop/ui-model";
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import type { ChatCore, ChatState, ConversationRow } from "../../runtime/chat-core.ts";
import { useForms, useText } from "../../i18n/index.ts";
import { announce } from "../../runtime/announce.ts";
import { at } from "../model/wire.ts";
import { isComposing } from "./composing.ts";
import { titleOf } from "./conversation-list.tsx";
import type { Sought } from "./open-chat.tsx";
import "./search.css";

const SHOWN_AT_MOST = 8;
const HITS = 20;
const QUIET_MS = 200;

export interface SearchProps {
  readonly core: ChatCore;
  readonly state: ChatState | null;
  /** `found`: the message to show in it; null for the conversation as it is. */
  readonly onOpen: (conversationId: string, found: Sought | null) => void;
  readonly onClose: () => void;
}

export interface Hit {
  readonly message_id: string;
  readonly conversation_id: string;
  readonly root_id: string;
  readonly conversation_name: string;
  readonly archived: boolean;
  readonly created_at: string;
  readonly snippet: readonly { readonly text: string; readonly hit: boolean }[];
}

type Choice = { readonly id: string } & ({ readonly row: ConversationRow } | { readonly hit: Hit });

export function Search({ core, state, onOpen, onClose }: SearchProps) {
  const t = useText();
  const list = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const [words, setWords] = useState("");
  const [place, setPlace] = useState(0);
  const { hits, phase } = useHits(core, words);
  const rows = find(state?.conversations ?? [], words).slice(0, SHOWN_AT_MOST);
  const choices: readonly Choice[] = [
    ...rows.map((row) => ({ id: `${list}-${row.id}`, row })),
    ...hits.map((hit) => ({ id: `${list}-${hit.message_id}`, hit })),
  ];
  const current = choices[Math.min(place, choices.length - 1)];

  useEffect(() => {
    const element = dialog.current;
    if (element !== null && !element.open) element.showModal();
  }, []);
  useEffect(() => {
    if (current !== undefined) document.getElementById(current.id)?.scrollIntoView?.({ block: "nearest" });
  }, [current?.id]);
  useEffect(() => {
    if (phase === "done") announce(t("chat.search_found", { count: choices.length }));
    // Told once for each search that has ended.
  }, [phase, hits]);

  const open = (choice: Choice) => {
    if ("row" in choice) onOpen(choice.row.id, null);
    else onOpen(choice.hit.root_id, soughtIn(choice.hit));
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event)) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setPlace((before) => Math.max(0, Math.min(before + step, choices.length - 1)));
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
        aria-expanded={choices.length > 0}
        aria-controls={list}
        aria-activedescendant={current?.id}
        aria-label={t("chat.search")}
        placeholder={t("chat.search")}
        value={words}
        onChange={(event) => {
          setWords(event.target.value);
          setPlace(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div id={list} role="listbox" aria-label={t("chat.search")} className="search-found">
        {rows.length > 0 ? (
          <div role="group" aria-label={t("chat.conversations")}>
            {words.trim() === "" ? null : <p className="search-kind" aria-hidden>{t("chat.conversations")}</p>}
            {choices.map((choice) =>
              "row" in choice ? <Title key={choice.id} id={choice.id} row={choice.row} chosen={choice.id === current?.id} onOpen={() => open(choice)} /> : null,
            )}
          </div>
        ) : null}
        {hits.length > 0 ? (
          <div role="group" aria-label={t("chat.search_messages")}>
            <p className="search-kind" aria-hidden>{t("chat.search_messages")}</p>
            {choices.map((choice) =>
              "hit" in choice ? (
                <Found
                  key={choice.id}
                  id={choice.id}
                  hit={choice.hit}
                  title={titleIn(state, choice.hit, t("chat.untitled"))}
                  chosen={choice.id === current?.id}
                  onOpen={() => open(choice)}
                />
              ) : null,
            )}
          </div>
        ) : null}
      </div>
      {phase === "failed" ? <p className="conversations-none">{t("chat.search_failed")}</p> : null}
      {phase === "busy" && choices.length === 0 ? <p className="conversations-none">{t("chat.search_busy")}</p> : null}
      {phase === "done" && choices.length === 0 ? <p className="conversations-none">{t("chat.search_none")}</p> : null}
    </dialog>
  );
}

interface TitleProps {
  readonly id: string;
  readonly row: ConversationRow;
  readonly chosen: boolean;
  readonly onOpen: () => void;
}

function Title({ id, row, chosen, onOpen }: TitleProps) {
  const t = useText();
  const forms = useForms();
  return (
    <div id={id} role="option" className="search-row" aria-selected={chosen} onClick={onOpen}>
      <span className="conversation-title">{titleOf(row.title, t("chat.untitled"))}</span>
      {row.archived_at == null ? null : <span className="search-archived">{t("chat.archived")}</span>}
      {row.last_at !== null && <time>{forms.day(at(row.last_at), Date.now())}</time>}
    </div>
  );
}

interface FoundProps {
  readonly id: string;
  readonly hit: Hit;
  readonly title: string;
  readonly chosen: boolean;
  readonly onOpen: () => void;
}

function Found({ id, hit, title, chosen, onOpen }: FoundProps) {
  const t = useText();
  const forms = useForms();
  return (
    <div id={id} role="option" className="search-row search-hit" aria-selected={chosen} onClick={onOpen}>
      <span className="search-snippet">
        {hit.snippet.map((part, index) => (part.hit ? <mark key={index}>{part.text}</mark> : <span key={index}>{part.text}</span>))}
      </span>
      <span className="search-where">
        <span className="conversation-title">{title}</span>
        {hit.archived ? <span className="search-archived">{t("chat.archived")}</span> : null}
        <time>{forms.day(at(hit.created_at), Date.now())}</time>
      </span>
    </div>
  );
}

/** Of an operator's own work the conversation is opened; it stands in no row of it. */
const soughtIn = (hit: Hit): Sought | null =>
  hit.conversation_id === hit.root_id ? { root_id: hit.root_id, message_id: hit.message_id } : null;

const titleIn = (state: ChatState | null, hit: Hit, untitled: string): string =>
  titleOf(state?.conversations.find((row) => row.id === hit.root_id)?.title ?? hit.conversation_name, untitled);

type Phase = "idle" | "busy" | "done" | "failed";

/** What the server finds, asked once the person pauses; an answer that comes late counts for nothing. */
function useHits(core: ChatCore, words: string): { readonly hits: readonly Hit[]; readonly phase: Phase } {
  const [found, setFound] = useState<{ readonly hits: readonly Hit[]; readonly phase: Phase }>({ hits: [], phase: "idle" });
  const wanted = words.trim() === "" ? "" : words;
  useEffect(() => {
    if (wanted === "") {
      setFound({ hits: [], phase: "idle" });
      return undefined;
    }
    let here = true;
    setFound((before) => ({ ...before, phase: "busy" }));
    const ask = async () => {
      try {
        const answer = await core.request("messages.search", { words: wanted, limit: HITS });
        if (here) setFound({ hits: hitsOf(answer), phase: "done" });
      } catch (error) {
        if (!(error instanceof LoopError)) throw error;
        if (here) setFound({ hits: [], phase: "failed" });
      }
    };
    const timer = setTimeout(() => void ask(), QUIET_MS);
    return () => {
      here = false;
      clearTimeout(timer);
    };
  }, [core, wanted]);
  return found;
}

/** What an operator worked out and then said is found twice with the same words: it is shown where it was said. */
function hitsOf(answer: JsonObject): readonly Hit[] {
  const items = Array.isArray(answer["items"]) ? answer["items"] : [];
  const hits = items.filter((item) => isObject(item) && Array.isArray(item["snippet"])) as unknown as readonly Hit[];
  const words = (hit: Hit) => `${hit.root_id} ${hit.snippet.map((part) => part.text).join("")}`;
  const said = new Set(hits.filter((hit) => hit.conversation_id === hit.root_id).map(words));
  return hits.filter((hit) => hit.conversation_id === hit.root_id || !said.has(words(hit)));
}

/** Conversations whose title has every word, in any case. */
export function find(rows: readonly ConversationRow[], words: string): readonly ConversationRow[] {
  const wanted = words.toLocaleLowerCase().split(/\s+/).filter((word) => word !== "");
  return rows.filter((row) => {
    if (wanted.length === 0 && row.archived_at != null) return false;
    const title = row.title.toLocaleLowerCase();
    return wanted.every((word) => title.includes(word));
  });
}
