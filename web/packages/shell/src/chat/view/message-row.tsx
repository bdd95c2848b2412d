// One row of the transcript: who, when, what, how it stands; and what one can do with it.

import { PanelRight, Square } from "lucide-react";
import { memo, useId, type ReactNode } from "react";
import { useForms, useText } from "../../i18n/index.ts";
import { FIRST_THERE } from "../../runtime/chat-core.ts";
import { useStore } from "../../runtime/store.ts";
import { Blocks, ErrorBlock } from "../blocks/blocks.tsx";
import { rowIdOf } from "../blocks/reply-card.tsx";
import { useKeyed } from "../model/keyed.ts";
import { refusalText } from "../model/refusal-words.ts";
import type { Row } from "../model/rows.ts";
import { detailTarget, errorOf, isStreaming, readable, speakerOf, type Message } from "../model/wire.ts";
import { CallLines } from "./call-line.tsx";
import { useConversation } from "./context.ts";
import { CopyButton } from "./copy-button.tsx";
import { clockText, useNameOf } from "./names.ts";
import { SayingView } from "./saying-view.tsx";
import { useNow } from "./ticking.ts";

export interface RowProps {
  readonly row: Row;
  /** Follows closely on the same speaker: name and time are not said again. */
  readonly joined: boolean;
  readonly selected: boolean;
}

export const RowView = memo(function RowView({ row, joined, selected }: RowProps) {
  return row.kind === "saying" ? (
    <SayingRow id={row.id} joined={joined} />
  ) : (
    <MessageRow id={row.id} draft={row.kind === "draft"} joined={joined} selected={selected} />
  );
});

interface MessageRowProps {
  readonly id: string;
  readonly draft: boolean;
  readonly joined: boolean;
  readonly selected: boolean;
}

function MessageRow({ id, draft, joined, selected }: MessageRowProps) {
  const { transcript, select } = useConversation();
  const message = useKeyed(transcript.messages, id);
  const t = useText();
  if (message === undefined) return null;
  const person = message.actor.kind === "user";
  const streaming = isStreaming(message);
  return (
    <article
      id={rowIdOf(id)}
      className={person ? "row row-person" : "row"}
      data-streaming={streaming}
      data-draft={draft}
      data-selected={selected}
      data-purpose={message.purpose}
    >
      {joined ? null : <RowHead message={message} />}
      <div className="row-body">
        <Blocks message={message} />
        {streaming && message.content.blocks.length === 0 ? <Thinking /> : null}
        {message.cut === true ? <p className="row-badge">{t("chat.shortened")}</p> : null}
        <Failure message={message} />
      </div>
      <RowFoot message={message} draft={draft}>
        <CopyButton text={readable(message.content)} />
        {detailTarget(message) === null ? null : (
          <button
            type="button"
            className="quiet-button"
            aria-label={t("chat.show_work")}
            title={t("chat.show_work")}
            aria-pressed={selected}
            onClick={() => select(id)}
          >
            <PanelRight size={15} aria-hidden />
          </button>
        )}
      </RowFoot>
      <CallLines messageId={id} />
    </article>
  );
}

function RowHead({ message }: { readonly message: Message }) {
  const nameOf = useNameOf();
  const forms = useForms();
  const created = Date.parse(message.created_at);
  return (
    <header className="row-head">
      <span className="row-name">{nameOf(speakerOf(message))}</span>
      <time dateTime={message.created_at}>{forms.time(created)}</time>
    </header>
  );
}

function Failure({ message }: { readonly message: Message }) {
  const t = useText();
  const error = errorOf(message);
  // What was spoken whole as stopped says so in its own words.
  const spokenWhole = message.revision === 0 && message.purpose === "speech" && readable(message.content) !== "";
  if (message.status === "cancelled") return spokenWhole ? null : <p className="row-badge">{t("chat.stopped")}</p>;
  if (message.status !== "failed" && error === null) return null;
  const repeated = error !== null && error.message !== "" && readable(message.content).includes(error.message);
  if (repeated) return <p className="row-badge row-badge-bad">{t("chat.failed")}</p>;
  return <ErrorBlock code={error?.code ?? null} said={error?.message ?? ""} />;
}

function Thinking() {
  const t = useText();
  return (
    <p className="thinking">
      <span aria-hidden />
      {t("chat.thinking")}
    </p>
  );
}

interface RowFootProps {
  readonly message: Message;
  readonly draft: boolean;
  readonly children: ReactNode;
}

function RowFoot({ message, draft, children }: RowFootProps) {
  if (isStreaming(message)) {
    return (
      <div className="row-live">
        <Quiet messageId={message.id} />
        {message.purpose === "run" ? <StopButton messageId={message.id} /> : null}
      </div>
    );
  }
  return draft ? null : <div className="row-actions">{children}</div>;
}

const QUIET_AFTER_MS = 10_000;

/** Says how long nothing has come, once it is long. */
function Quiet({ messageId }: { readonly messageId: string }) {
  const t = useText();
  const { transcript } = useConversation();
  useNow(true);
  const heard = transcript.lastHeard.get(messageId) ?? performance.now();
  const quiet = performance.now() - heard;
  return quiet < QUIET_AFTER_MS ? null : <span className="quiet-for">{t("chat.quiet", { time: clockText(quiet) })}</span>;
}

/** How it stands with stopping a Run. While the Runtime is gone nobody hears of it: the button stays, and says why. */
function useStop(messageId: string) {
  const t = useText();
  const { core, transcript } = useConversation();
  const wish = useKeyed(transcript.stops, messageId);
  const away = useStore(core.link) === "gone";
  const reasonId = useId();
  const asked = wish?.state === "asked";
  return {
    wish,
    label: asked ? t("chat.stopping") : t("chat.stop"),
    reason: away ? (
      <span id={reasonId} hidden>
        {t("chat.stop_away")}
      </span>
    ) : null,
    // Not `disabled` for want of a Runtime: who is on it with the keyboard stays there and is told the reason.
    button: {
      type: "button",
      disabled: asked,
      "aria-disabled": away || undefined,
      "aria-describedby": away ? reasonId : undefined,
      title: away ? t("chat.stop_away") : undefined,
      onClick: () => {
        if (!away) void transcript.stop(messageId);
      },
    },
  } as const;
}

function StopButton({ messageId }: { readonly messageId: string }) {
  const t = useText();
  const { wish, label, reason, button } = useStop(messageId);
  return (
    <>
      <button {...button} className="stop-button">
        <Square size={11} fill="currentColor" aria-hidden />
        {label}
      </button>
      {reason}
      {wish?.state === "failed" ? (
        <span className="stop-failed" role="alert">
          {t("chat.stop_failed")} {refusalText(t, wish.code)} <code>{wish.code}</code>
        </span>
      ) : null}
    </>
  );
}

/** Stop where Send stands while nothing is written. */
export function StopInstead({ messageId }: { readonly messageId: string }) {
  const { label, reason, button } = useStop(messageId);
  return (
    <>
      <button {...button} className="send-button" data-stop="true" aria-label={label} title={button.title ?? label}>
        <Square size={13} fill="currentColor" aria-hidden />
      </button>
      {reason}
    </>
  );
}

function SayingRow({ id, joined }: { readonly id: string; readonly joined: boolean }) {
  const { core, transcript, edit } = useConversation();
  const saying = useKeyed(transcript.sayings, id);
  if (saying === undefined) return null;
  const drop = () => {
    if (saying.by === "page") {
      core.discard(saying.key);
      transcript.forget(saying.key);
    } else core.dispatch("forget_saying", { key: saying.key }).then(() => transcript.forget(saying.key), () => undefined);
  };
  const again = () => {
    if (saying.by === "page") return core.again(saying.key);
    const { key, text, target, reply_to_id } = saying;
    const words = { conversation_id: transcript.conversationId, key, text };
    const to = target === null || target === FIRST_THERE ? {} : { target: { ...target } };
    core.dispatch("say", { ...words, ...to, ...(reply_to_id === null ? {} : { reply_to_id }) }).catch(() => undefined);
  };
  return <SayingView saying={saying} joined={joined} onAgain={again} onDrop={drop} onEdit={edit} />;
}
