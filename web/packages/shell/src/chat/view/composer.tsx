// Where one writes. Enter sends, Shift-Enter breaks the line, ↑ in an empty field brings back what was said last.

import { ArrowUp } from "lucide-react";
import { useEffect, useImperativeHandle, useRef, useState, type KeyboardEvent, type Ref } from "react";
import { firstThere, isTooLong, type ChatState } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import type { Memory, Recipient } from "../model/memory.ts";
import { refusalText } from "../model/refusal-words.ts";
import { isComposing } from "./composing.ts";
import { StopInstead } from "./message-row.tsx";
import { RecipientPicker } from "./recipient-picker.tsx";

export interface ComposerHandle {
  focus(): void;
  edit(text: string): void;
}

export interface ComposerProps {
  /** The conversation, or FRESH. Another one is another composer (use it as `key`). */
  readonly conversationId: string;
  readonly memory: Memory;
  readonly state: ChatState | null;
  /** The newest Run that works here; it can be stopped when nothing is written. */
  readonly running: string | null;
  /** What ↑ brings back. */
  readonly lastSaid: () => string | null;
  /** The code with which it was not accepted, or null: then the field is emptied. */
  readonly onSend: (text: string, recipient: Recipient | null) => string | null;
  readonly ref?: Ref<ComposerHandle>;
}

const LINES_AT_MOST = 9;

export function Composer(props: ComposerProps) {
  const { conversationId, memory, state, running, lastSaid, onSend, ref } = props;
  const t = useText();
  const field = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(() => memory.draft(conversationId));
  const [chosen, setChosen] = useState(() => memory.recipient(conversationId));
  const [refused, setRefused] = useState<string | null>(null);
  const recipient = chosen ?? (state?.recipients_known ? firstThere(state) : null);

  const write = (value: string) => {
    setText(value);
    setRefused(null);
    memory.keepDraft(conversationId, value);
  };
  useImperativeHandle(ref, () => ({
    focus: () => field.current?.focus(),
    edit(value) {
      // Asked for twice, as a double click does, it is there once.
      if (text !== value && !text.startsWith(`${value}\n`)) write(text.trim() === "" ? value : `${value}\n${text}`);
      field.current?.focus();
    },
  }));
  useEffect(() => {
    const element = field.current;
    element?.setSelectionRange(element.value.length, element.value.length);
  }, []);

  const send = () => {
    if (text.trim() === "") return;
    const code = isTooLong(text) ? "limit_exceeded" : onSend(text, recipient);
    if (code === null) write("");
    else setRefused(code);
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (isComposing(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    } else if (event.key === "ArrowUp" && text === "") {
      const last = lastSaid();
      if (last === null) return;
      event.preventDefault();
      write(last);
    } else if (event.key === "Escape" && text === "") {
      field.current?.blur();
    }
  };

  const stoppable = running !== null && text.trim() === "";
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {refused === null ? null : (
        <p className="composer-refused" role="alert">
          {t("chat.saying.refused")} {refusalText(t, refused)} <code>{refused}</code>
        </p>
      )}
      <textarea
        ref={field}
        rows={Math.min(text.split("\n").length, LINES_AT_MOST)}
        value={text}
        placeholder={t("chat.write")}
        aria-label={t("chat.write")}
        enterKeyHint="send"
        onChange={(event) => write(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <div className="composer-foot">
        <RecipientPicker
          state={state}
          recipient={recipient}
          onChoose={(choice) => {
            setChosen(choice);
            memory.keepRecipient(conversationId, choice);
          }}
        />
        {stoppable ? (
          <StopInstead messageId={running} />
        ) : (
          <button type="submit" className="send-button" disabled={text.trim() === ""} aria-label={t("chat.send")}>
            <ArrowUp size={18} aria-hidden />
          </button>
        )}
      </div>
    </form>
  );
}
