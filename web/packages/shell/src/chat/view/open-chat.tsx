// One open conversation: its transcript, where one writes, and the work behind a message. Another conversation is
// another one of these; nothing is carried over.

import { LoopError } from "@lineloop/ui-model";
import { useCallback, useEffect, useMemo, useRef, useState, type RefObject } from "react";
import type { ChatCore, ChatState } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import { announce } from "../../runtime/announce.ts";
import { useStore } from "../../runtime/store.ts";
import { animationFrame } from "../model/frames.ts";
import { addressed, type Memory, type Recipient } from "../model/memory.ts";
import { Transcript, type TranscriptView as View } from "../model/transcript.ts";
import { readable } from "../model/wire.ts";
import { hasKeyboard } from "./composing.ts";
import { Composer, type ComposerHandle } from "./composer.tsx";
import { ConnectionNote } from "./connection-note.tsx";
import { OpenConversationContext, type OpenConversation } from "./context.ts";
import { nameIn } from "./names.ts";
import { ProcessPane } from "./process-pane.tsx";
import { TranscriptView, type TranscriptHandle } from "./transcript-view.tsx";

export interface OpenChatProps {
  readonly core: ChatCore;
  readonly conversationId: string;
  readonly memory: Memory;
  /** Whether the pane with the work may be shown at all. */
  readonly withWork: boolean;
  readonly workOpen: boolean;
  readonly onWork: (open: boolean) => void;
  /** Whether the person has just chosen this conversation; taken back once the focus has followed. */
  readonly chosen: RefObject<boolean>;
  /** What a search found here. */
  readonly sought: Sought | null;
}

/** A message to be shown; a new one each time, also of the same message. */
export interface Sought {
  readonly root_id: string;
  readonly message_id: string;
}

export function OpenChat(props: OpenChatProps) {
  const { core, conversationId, memory, withWork, workOpen, onWork, chosen, sought } = props;
  const transcript = useMemo(() => new Transcript(core, conversationId, animationFrame), [core, conversationId]);
  useEffect(transcript.open, [transcript]);
  const view = useStore(transcript.view);
  const state = useStore(core.state);
  const composer = useRef<ComposerHandle>(null);
  const seen = useRef<TranscriptHandle>(null);
  useEffect(() => {
    if (!chosen.current) return;
    chosen.current = false;
    if (hasKeyboard()) composer.current?.focus();
  }, [chosen]);
  const [selected, setSelected] = useState<string | null>(null);
  const [said, setSaid] = useState(0);
  const [atEnd, setAtEnd] = useState(true);
  useAnnouncements(transcript, core);
  const newId = useFirstNew(transcript, view, state, conversationId);
  useMarkRead(core, conversationId, view.phase === "ready" && atEnd ? view.lastOrdinal : 0);

  const open = useMemo<OpenConversation>(
    () => ({
      core,
      transcript,
      select(messageId) {
        setSelected(messageId);
        onWork(true);
      },
      async goTo(messageId) {
        const there = await transcript.reach(messageId);
        // What was fetched last is drawn with the next frame.
        requestAnimationFrame(() => seen.current?.goTo(there ? messageId : null));
      },
      edit: (text) => composer.current?.edit(text),
    }),
    [core, transcript, onWork],
  );
  const gone = useRef<Sought | null>(null);
  useEffect(() => {
    if (sought === null || gone.current === sought || view.phase !== "ready") return;
    gone.current = sought;
    void open.goTo(sought.message_id);
  }, [sought, view.phase, open]);
  const send = (text: string, recipient: Recipient | null) => {
    try {
      core.say({ conversation_id: conversationId, text, ...addressed(recipient, state) });
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      return error.code;
    }
    if (recipient !== null) memory.keepRecipient(conversationId, recipient);
    setSelected(null);
    setSaid((count) => count + 1);
    return null;
  };
  const lastSaid = useCallback(() => {
    const id = transcript.view.get().lastInput;
    const message = id === null ? undefined : transcript.messages.get(id);
    return message === undefined ? null : readable(message.content);
  }, [transcript]);

  return (
    <OpenConversationContext value={open}>
      <div className="centre">
        <TranscriptView ref={seen} transcript={transcript} selectedId={selected} newId={newId} said={said} onAtEnd={setAtEnd} />
        <ConnectionNote core={core} />
        <Composer
          ref={composer}
          conversationId={conversationId}
          memory={memory}
          state={state}
          running={view.running.at(-1) ?? null}
          lastSaid={lastSaid}
          onSend={send}
        />
      </div>
      {withWork ? (
        <div className="work-slot" data-open={workOpen}>
          <ProcessPane messageId={selected ?? view.lastInput} onClose={() => onWork(false)} />
        </div>
      ) : null}
    </OpenConversationContext>
  );
}

/** The first message that was new when the conversation was opened; it stays where it was while one reads on. */
function useFirstNew(transcript: Transcript, view: View, state: ChatState | null, conversationId: string): string | null {
  const read = useRef<number | null>(null);
  if (read.current === null && state !== null) {
    const row = state.conversations.find((one) => one.id === conversationId);
    if (row !== undefined) read.current = row.unread > 0 ? (row.read_ordinal ?? 0) : -1;
  }
  const after = read.current ?? -1;
  return useMemo(
    () => (after < 0 || view.pages.length === 0 ? null : transcript.firstNew(after)),
    [after, transcript, view.pages],
  );
}

/** Tells the Runtime what was seen: the end of the conversation, in a page that is looked at. */
function useMarkRead(core: ChatCore, conversationId: string, ordinal: number): void {
  const [visible, setVisible] = useState(() => document.visibilityState !== "hidden");
  const marked = useRef({ told: 0, wanted: 0, busy: false });
  useEffect(() => {
    const look = () => setVisible(document.visibilityState !== "hidden");
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  useEffect(() => {
    const mark = marked.current;
    if (!visible || ordinal <= mark.wanted) return;
    mark.wanted = ordinal;
    // One at a time, and then the newest: of many messages that come in a row only the last is told.
    const tell = async () => {
      if (mark.busy) return;
      mark.busy = true;
      try {
        while (mark.wanted > mark.told) {
          const told = mark.wanted;
          await core.dispatch("mark_read", { conversation_id: conversationId, ordinal: told });
          mark.told = told;
        }
      } catch {
        mark.wanted = mark.told;
      } finally {
        mark.busy = false;
      }
    };
    void tell();
  }, [core, conversationId, ordinal, visible]);
}

/** Says aloud that an answer begins and how it ended, never its words. */
function useAnnouncements(transcript: Transcript, core: ChatCore): void {
  const t = useText();
  useEffect(
    () =>
      transcript.announcement.subscribe(() => {
        const told = transcript.announcement.get();
        if (told !== null) announce(t(`chat.announce.${told.kind}`, { name: nameIn(core.state.get(), told.who) }));
      }),
    [transcript, core, t],
  );
}
