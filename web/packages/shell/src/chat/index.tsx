// The chat, docked beside an app or filling the window.

import { Suspense, lazy, useCallback, useEffect, useRef, useState } from "react";
import type { ChatCore, ChatState } from "../runtime/chat-core.ts";
import { useText } from "../i18n/index.ts";
import { useStore } from "../runtime/store.ts";
import { loadMarkdownSoon } from "./blocks/lazy-markdown.tsx";
import { Memory } from "./model/memory.ts";
import { ConversationHead } from "./view/conversation-head.tsx";
import { ConversationList, titleOf } from "./view/conversation-list.tsx";
import { FreshChat } from "./view/fresh-chat.tsx";
import { OpenChat, type Sought } from "./view/open-chat.tsx";
import "./chat.css";
import "./talk.css";
import "./blocks.css";
import "./record.css";
import "./narrow.css";

const Search = lazy(() => import("./view/search.tsx").then((part) => ({ default: part.Search })));
const Members = lazy(() => import("./view/members.tsx").then((part) => ({ default: part.Members })));

export interface ChatProps {
  /** The chat's session with the Runtime; the same object for the life of the page. */
  readonly core: ChatCore;
  /**
   * false: the chat is everything (three panes when wide). true: it stands in a narrow column, or in a sheet on a
   * phone, beside the app of `conversationId`; show the one conversation, without its list. Use container queries:
   * the column is a size container named `chat`.
   */
  readonly docked: boolean;
  /** The open conversation; null before the first one exists (then show how to begin). */
  readonly conversationId: string | null;
  /** The person chose another one (or made one). The frame tells the Runtime (`open_conversation`) and changes the prop. */
  readonly onConversation: (conversationId: string) => void;
}

export function Chat({ core, docked, conversationId, onConversation }: ChatProps) {
  const t = useText();
  const state = useStore(core.state);
  const [memory] = useState(() => new Memory(pageStorage()));
  const [beginning, setBeginning] = useState(false);
  const [listShown, setListShown] = useState(false);
  const [workOpen, setWorkOpen] = useState(false);
  const [searching, setSearching] = useState(false);
  const [membersOf, setMembersOf] = useState<string | null>(null);
  const [sought, setSought] = useState<Sought | null>(null);
  const fresh = beginning || conversationId === null;
  // Set by what the person chose here, never by what the frame opened: only then the focus follows.
  const chosen = useRef(false);
  useSearchKey(!docked, setSearching);
  useEffect(loadMarkdownSoon, []);

  // The frame opened another conversation: that is what the person sees now.
  const [lastId, setLastId] = useState(conversationId);
  if (lastId !== conversationId) {
    setLastId(conversationId);
    setBeginning(false);
  }
  const open = useCallback(
    (id: string) => {
      setBeginning(false);
      setListShown(false);
      if (id === conversationId) return;
      chosen.current = true;
      onConversation(id);
    },
    [conversationId, onConversation],
  );
  const begin = () => {
    setBeginning(true);
    setListShown(false);
  };
  const title = fresh ? t("chat.new") : titleOf(rowOf(state, conversationId)?.title ?? "", t("chat.untitled"));

  return (
    <section className="chat" data-docked={docked} data-list={listShown} aria-label={t("chat.title")}>
      {docked ? null : (
        <ConversationList
          state={state}
          openId={fresh ? null : conversationId}
          onOpen={open}
          onNew={begin}
          onSearch={() => setSearching(true)}
        />
      )}
      <div className="conversation">
        {docked ? (
          <h1 className="aloud">{title}</h1>
        ) : (
          <ConversationHead
            core={core}
            row={fresh ? null : (rowOf(state, conversationId) ?? null)}
            title={title}
            workOpen={workOpen}
            onWork={() => setWorkOpen((before) => !before)}
            onList={() => setListShown(true)}
            onMembers={() => setMembersOf(conversationId)}
          />
        )}
        <div className="conversation-body">
          {fresh ? (
            <FreshChat core={core} state={state} memory={memory} onBegun={open} />
          ) : (
            <OpenChat
              key={conversationId}
              core={core}
              conversationId={conversationId}
              memory={memory}
              withWork={!docked}
              workOpen={workOpen}
              onWork={setWorkOpen}
              chosen={chosen}
              sought={sought?.root_id === conversationId ? sought : null}
            />
          )}
        </div>
      </div>
      {membersOf === null ? null : (
        <Suspense>
          <Members core={core} conversationId={membersOf} onClose={() => setMembersOf(null)} />
        </Suspense>
      )}
      {searching ? (
        <Suspense>
          <Search
            core={core}
            state={state}
            onOpen={(id, found) => {
              setSought(found);
              open(id);
            }}
            onClose={() => setSearching(false)}
          />
        </Suspense>
      ) : null}
    </section>
  );
}

const rowOf = (state: ChatState | null, id: string | null) => state?.conversations.find((row) => row.id === id);

function pageStorage(): Storage | null {
  try {
    return globalThis.localStorage ?? null;
  } catch {
    return null;
  }
}

function useSearchKey(active: boolean, show: (open: boolean) => void): void {
  useEffect(() => {
    if (!active) return;
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      show(true);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [active, show]);
}
