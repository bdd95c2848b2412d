// A question to the person. What it shows as answered is what the server has stored, never what was clicked.

import { LoopError, type Block } from "@lineloop/ui-model";
import { useEffect, useId, useState, type FormEvent, type KeyboardEvent } from "react";
import { useForms, useText } from "../../i18n/index.ts";
import { DECLINED, labelOf, readQuestion, type QuestionTerms } from "../model/question.ts";
import { useKeyed } from "../model/keyed.ts";
import { refusalText } from "../model/refusal-words.ts";
import { at, type Message } from "../model/wire.ts";
import { useConversation } from "../view/context.ts";
import { isComposing } from "../view/composing.ts";

export function QuestionCard({ block, message }: { readonly block: Block; readonly message: Message }) {
  const t = useText();
  const question = readQuestion(block);
  if (question === null) return <p className="block block-unknown">{t("chat.card.unreadable")}</p>;
  return (
    <article className="block card" data-state={question.state} aria-label={t("chat.card.question")}>
      <p className="card-text">{question.text}</p>
      {question.state === "pending" ? (
        <OpenQuestion question={question} message={message} />
      ) : (
        <ClosedQuestion question={question} />
      )}
    </article>
  );
}

type Sending =
  | { readonly state: "idle" | "sending" | "sent" }
  | { readonly state: "failed"; readonly code: string };

/** Sends one answer at a time; after it was taken the card waits for the stored result, or for its refusal. */
function useAnswer(message: Message) {
  const { core, transcript } = useConversation();
  const held = useKeyed(transcript.answers, message.id);
  const [own, setSending] = useState<Sending>({ state: "idle" });
  const [over, setOver] = useState<string | null>(null);
  // Once the connection is back nothing is said of its loss any more.
  useEffect(() => {
    const goOn = (now: Sending): Sending => (now.state === "failed" && now.code === "connection_lost" ? { state: "idle" } : now);
    return core.link.subscribe(() => {
      if (core.link.get() === "online") setSending(goOn);
    });
  }, [core]);
  const told = held?.key === over ? undefined : held;
  const sending: Sending =
    told === undefined
      ? own
      : told.state === "refused"
        ? { state: "failed", code: told.code ?? "internal" }
        : { state: "sent" };
  const busy = sending.state === "sending" || sending.state === "sent";
  const send = (value: string | null) => {
    if (busy) return;
    setOver(held?.key ?? null);
    setSending({ state: "sending" });
    const params = { conversation_id: message.conversation_id, question_id: message.id, value };
    core.dispatch("answer", params).then(
      () => setSending({ state: "sent" }),
      (error: unknown) => setSending({ state: "failed", code: error instanceof LoopError ? error.code : "internal" }),
    );
  };
  return { sending, send, busy };
}

function OpenQuestion({ question, message }: { readonly question: QuestionTerms; readonly message: Message }) {
  const t = useText();
  const forms = useForms();
  const group = useId();
  const { sending, send, busy } = useAnswer(message);
  const [picked, setPicked] = useState<string | null>(null);
  const [words, setWords] = useState("");
  const own = question.freeText && (question.choices.length === 0 || picked === null);
  const answer = picked ?? (own && words.trim() !== "" ? words.trim() : null);

  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (answer !== null) send(answer);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || isComposing(event) || busy) return;
    event.preventDefault();
    event.stopPropagation();
    send(null);
  };
  const submitOnEnter = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
    submit(event);
  };

  return (
    <form className="card-form" onSubmit={submit} onKeyDown={onKeyDown}>
      <fieldset disabled={busy}>
        <legend className="aloud">{question.text}</legend>
        {question.kind === "ask"
          ? question.choices.map((choice) => (
              <label key={choice.value} className="choice">
                <input
                  type="radio"
                  name={group}
                  checked={picked === choice.value}
                  onChange={() => setPicked(choice.value)}
                />
                <span>{labelOf(t, question.kind, choice)}</span>
              </label>
            ))
          : null}
        {question.freeText ? (
          <textarea
            rows={2}
            value={words}
            aria-label={t("chat.card.own_words")}
            placeholder={t("chat.card.own_words")}
            onFocus={() => setPicked(null)}
            onChange={(event) => setWords(event.target.value)}
            onKeyDown={submitOnEnter}
          />
        ) : null}
        <div className="card-actions">
          {question.kind === "confirm" ? (
            question.choices.map((choice) => (
              <button
                key={choice.value}
                type="button"
                className={choice.value === DECLINED ? "button small" : "button primary small"}
                onClick={() => send(choice.value)}
              >
                {labelOf(t, question.kind, choice)}
              </button>
            ))
          ) : (
            <button type="submit" className="button primary small" disabled={answer === null}>
              {t("chat.card.answer")}
            </button>
          )}
          <button type="button" className="button quiet small" onClick={() => send(null)}>
            {t("chat.card.dismiss")}
          </button>
          <span className="card-note">
            {busy
              ? t("chat.card.sending")
              : question.deadlineAt === null
                ? ""
                : t("chat.card.until", { time: forms.time(at(question.deadlineAt)) })}
          </span>
        </div>
      </fieldset>
      {sending.state === "failed" ? (
        <p className="card-error" role="alert">
          {t("chat.card.failed")} {refusalText(t, sending.code)} <code>{sending.code}</code>
        </p>
      ) : null}
    </form>
  );
}

function ClosedQuestion({ question }: { readonly question: QuestionTerms }) {
  const t = useText();
  const group = useId();
  const offered = question.choices.some((choice) => choice.value === question.value);
  const outcome =
    question.state === "success"
      ? question.value === DECLINED && question.kind === "confirm"
        ? t("chat.card.declined")
        : t("chat.card.answered")
      : t(`chat.card.${question.state as "dismissed" | "timeout" | "failure"}`);
  return (
    <>
      {question.choices.length > 0 ? (
        <fieldset disabled className="card-closed">
          <legend className="aloud">{question.text}</legend>
          {question.choices.map((choice) => (
            <label key={choice.value} className="choice">
              <input
                type="radio"
                name={group}
                readOnly
                checked={question.state === "success" && choice.value === question.value}
              />
              <span>{labelOf(t, question.kind, choice)}</span>
            </label>
          ))}
        </fieldset>
      ) : null}
      {question.state === "success" && question.value !== null && !offered ? (
        <p className="card-words">{question.value}</p>
      ) : null}
      <p className="card-outcome">{outcome}</p>
    </>
  );
}
