// The conversations, newest activity first; those that were archived in a list of their own.

import { Archive, ChevronLeft, Plus, Search } from "lucide-react";
import { useEffect, useState } from "react";
import type { ChatState } from "../../runtime/chat-core.ts";
import { useForms, useText } from "../../i18n/index.ts";
import { at } from "../model/wire.ts";

export interface ConversationListProps {
  readonly state: ChatState | null;
  /** null: the one that is about to begin. */
  readonly openId: string | null;
  readonly onOpen: (conversationId: string) => void;
  readonly onNew: () => void;
  readonly onSearch: () => void;
}

export function ConversationList({ state, openId, onOpen, onNew, onSearch }: ConversationListProps) {
  const t = useText();
  const now = useMinute();
  const [archive, setArchive] = useState(false);
  const all = state?.conversations ?? [];
  const archived = all.filter((row) => row.archived_at != null);
  const inArchive = archive && archived.length > 0;
  const rows = inArchive ? archived : all.filter((row) => row.archived_at == null);
  return (
    <nav className="conversations" aria-label={t("chat.conversations")}>
      <header className="conversations-head">
        {inArchive ? (
          <button type="button" className="quiet-button" onClick={() => setArchive(false)} aria-label={t("chat.archived.leave")}>
            <ChevronLeft size={18} aria-hidden />
          </button>
        ) : null}
        <h2>{t(inArchive ? "chat.archived" : "chat.conversations")}</h2>
        <button type="button" className="quiet-button" onClick={onSearch} aria-label={t("chat.search")} title={t("chat.search_hint")}>
          <Search size={16} aria-hidden />
        </button>
        <button type="button" className="quiet-button" onClick={onNew} aria-label={t("chat.new")} title={t("chat.new")} aria-pressed={openId === null}>
          <Plus size={18} aria-hidden />
        </button>
      </header>
      {state !== null && rows.length === 0 ? <p className="conversations-none">{t("chat.conversations_none")}</p> : null}
      <ul>
        {rows.map((row) => (
          <li key={row.id}>
            <button type="button" aria-current={row.id === openId} data-unread={row.unread > 0} onClick={() => onOpen(row.id)}>
              <span className="conversation-title">{titleOf(row.title, t("chat.untitled"))}</span>
              <Ago time={row.last_at} now={now} />
              {row.unread > 0 ? (
                <span className="unread" aria-label={t("chat.unread", { count: row.unread })}>
                  {row.unread > 99 ? "99+" : row.unread}
                </span>
              ) : null}
            </button>
          </li>
        ))}
      </ul>
      {archived.length > 0 && !inArchive ? (
        <button type="button" className="to-archive" onClick={() => setArchive(true)}>
          <Archive size={15} aria-hidden />
          {t("chat.archived")}
          <span>{archived.length}</span>
        </button>
      ) : null}
    </nav>
  );
}

export const titleOf = (title: string, untitled: string): string => (title.trim() === "" ? untitled : title);

const DAY_MS = 86_400_000;

/** How long ago; nothing for a conversation of which nothing is known yet. */
function Ago({ time, now }: { readonly time: string | null; readonly now: number }) {
  const forms = useForms();
  if (time === null) return null;
  const then = at(time);
  const today = new Date(then).toDateString() === new Date(now).toDateString();
  const words = today ? forms.time(then) : now - then < 6 * DAY_MS ? forms.ago(then, now) : forms.day(then, now);
  return <time dateTime={time}>{words}</time>;
}

const MINUTE_MS = 60_000;

function useMinute(): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), MINUTE_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
