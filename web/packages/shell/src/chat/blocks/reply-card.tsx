// What the person answered: a snapshot that needs nothing else to be shown, least of all its question.

import type { Block } from "@lineloop/ui-model";
import { useText } from "../../i18n/index.ts";
import { labelOf, readReply } from "../model/question.ts";
import { useConversation } from "../view/context.ts";

export function ReplyCard({ block }: { readonly block: Block }) {
  const t = useText();
  const { goTo } = useConversation();
  const reply = readReply(block);
  if (reply === null) return <p className="block block-unknown">{t("chat.card.unreadable")}</p>;
  const label = labelOf(t, reply.kind, { value: reply.value ?? "", label: reply.label ?? "" });
  return (
    <div className="block reply-card">
      <a
        className="reply-question"
        href={`#${rowIdOf(reply.questionId)}`}
        title={t("chat.card.show_question")}
        onClick={(event) => {
          event.preventDefault();
          void goTo(reply.questionId);
        }}
      >
        {reply.question}
      </a>
      {reply.dismissed ? (
        <p className="reply-value" data-dismissed>
          {t("chat.card.dismissed")}
        </p>
      ) : (
        <p className="reply-value">
          <input type="radio" checked readOnly disabled aria-label={label} />
          <span>{label}</span>
        </p>
      )}
    </div>
  );
}

/** Where a message stands in the page. */
export const rowIdOf = (messageId: string): string => `message-${messageId}`;
