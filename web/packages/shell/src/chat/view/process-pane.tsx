// The work behind one message: what its operator did, when, for how long, and with which tools.

import { X } from "lucide-react";
import { useEffect, useMemo } from "react";
import { useForms, useText } from "../../i18n/index.ts";
import { useStore } from "../../runtime/store.ts";
import { Blocks, ErrorBlock } from "../blocks/blocks.tsx";
import { useKeyed } from "../model/keyed.ts";
import { stretchesOf, subjectOf, workOn, type Stretch } from "../model/process.ts";
import { at, detailTarget, errorOf, isStreaming, type Message } from "../model/wire.ts";
import { CallView } from "./call-line.tsx";
import { useConversation } from "./context.ts";
import { clockText, nameIn, useNameOf } from "./names.ts";
import { useNow } from "./ticking.ts";

export interface ProcessPaneProps {
  /** The message whose work is shown; null when nothing is chosen. */
  readonly messageId: string | null;
  readonly onClose: () => void;
}

export function ProcessPane({ messageId, onClose }: ProcessPaneProps) {
  const t = useText();
  return (
    <aside
      className="process"
      aria-label={t("chat.work")}
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
      }}
    >
      <header className="process-head">
        <h2>{t("chat.work")}</h2>
        <button type="button" className="quiet-button process-close" onClick={onClose} aria-label={t("chat.close")}>
          <X size={16} aria-hidden />
        </button>
      </header>
      {messageId === null ? <p className="process-none">{t("chat.work.nothing_selected")}</p> : <WorkOf messageId={messageId} />}
    </aside>
  );
}

function WorkOf({ messageId }: { readonly messageId: string }) {
  const t = useText();
  const { core, transcript } = useConversation();
  const message = useKeyed(transcript.messages, messageId);
  const state = useStore(core.state);
  const operator = message === undefined ? null : detailTarget(message);
  if (message === undefined || operator === null) return <p className="process-none">{t("chat.work.nobody")}</p>;
  return <OperatorsWork message={message} operator={operator} name={nameIn(state, operator)} />;
}

interface OperatorsWorkProps {
  readonly message: Message;
  readonly operator: string;
  readonly name: string;
}

function OperatorsWork({ message, operator, name }: OperatorsWorkProps) {
  const t = useText();
  const { transcript } = useConversation();
  const change = useStore(transcript.processChange);
  const process = transcript.processOf(operator)?.conversation_id ?? null;
  useEffect(() => {
    if (process !== null) transcript.loadProcess(operator).catch(() => undefined);
  }, [transcript, operator, process]);
  const stretches = useMemo(() => {
    const find = (id: string) => transcript.messages.get(id);
    const input = subjectOf(message, find);
    const work = transcript.processMessages(operator);
    return stretchesOf(input === null ? [] : workOn(input, transcript.nextInput(input), work));
    // `change` stands for what the transcript knows of the work.
  }, [transcript, message, operator, change]);
  return (
    <div className="process-body" tabIndex={0} role="region" aria-label={name}>
      <p className="process-who">{name}</p>
      {process === null ? <p className="process-none">{t("chat.work.searching", { name })}</p> : null}
      {process !== null && stretches.length === 0 ? <p className="process-none">{t("chat.work.none", { name })}</p> : null}
      {stretches.map((stretch) => (
        <StretchView key={stretch.from} stretch={stretch} />
      ))}
    </div>
  );
}

function StretchView({ stretch }: { readonly stretch: Stretch }) {
  const forms = useForms();
  const nameOf = useNameOf();
  return (
    <section className="stretch">
      <p className="stretch-time">
        <time>{forms.time(stretch.from)}</time>
        <Duration from={stretch.from} until={stretch.until} />
      </p>
      <div className="stretch-columns" data-many={stretch.columns.length > 1}>
        {stretch.columns.map(({ actor, messages }) => (
          <div key={`${actor.kind}/${actor.key}`} className="stretch-column">
            {stretch.columns.length > 1 ? <p className="column-name">{nameOf(actor)}</p> : null}
            {messages.map((message) => (
              <Working key={message.id} message={message} />
            ))}
          </div>
        ))}
      </div>
    </section>
  );
}

function Duration({ from, until }: { readonly from: number; readonly until: number | null }) {
  const now = useNow(until === null);
  return <span className="duration">{clockText((until ?? now) - from)}</span>;
}

function Working({ message }: { readonly message: Message }) {
  const t = useText();
  const { transcript } = useConversation();
  const calls = transcript.callsOf(message.id);
  const error = errorOf(message);
  return (
    <article className="working" data-streaming={isStreaming(message)}>
      <p className="working-state">
        <span className="call-dot" aria-hidden />
        {t(`chat.status.${message.status}`)}
        <Duration from={at(message.created_at)} until={isStreaming(message) ? null : at(message.updated_at)} />
      </p>
      <Blocks message={message} />
      {error === null ? null : <ErrorBlock code={error.code} said={error.message} />}
      {calls.map((call) => (
        <CallView key={call.call_id} call={call} unfolded />
      ))}
    </article>
  );
}
