// What the person said and that is no message yet: how it stands, and what can be done with it when it was not taken.

import { RotateCcw, X } from "lucide-react";
import { useForms, useText } from "../../i18n/index.ts";
import type { SayingView as Saying } from "../model/transcript.ts";
import { refusalText } from "../model/refusal-words.ts";

export interface SayingViewProps {
  readonly saying: Pick<Saying, "text" | "created_at" | "state" | "code">;
  readonly joined: boolean;
  /** The same words again under the same key. */
  readonly onAgain: () => void;
  readonly onDrop: () => void;
  /** Puts the words into the composer. */
  readonly onEdit: (text: string) => void;
}

export function SayingView(props: SayingViewProps) {
  const { saying, joined } = props;
  const t = useText();
  const forms = useForms();
  return (
    <article className="row row-person" data-saying={saying.state}>
      {joined ? null : (
        <header className="row-head">
          <span className="row-name">{t("chat.you")}</span>
          <time dateTime={saying.created_at}>{forms.time(Date.parse(saying.created_at))}</time>
        </header>
      )}
      <div className="row-body">
        <p className="block block-text">{saying.text}</p>
      </div>
      {saying.state === "refused" ? (
        <Refused {...props} />
      ) : (
        <p className="saying-state">{t(`chat.saying.${saying.state}`)}</p>
      )}
    </article>
  );
}

function Refused({ saying, onAgain, onDrop, onEdit }: SayingViewProps) {
  const t = useText();
  return (
    <div className="saying-refused" role="alert">
      <span>
        {t("chat.saying.refused")} {refusalText(t, saying.code)}{" "}
        {saying.code === null ? null : <code>{saying.code}</code>}
      </span>
      <button type="button" className="button quiet small" onClick={onAgain}>
        <RotateCcw size={13} aria-hidden /> {t("chat.saying.again")}
      </button>
      <button
        type="button"
        className="button quiet small"
        onClick={() => {
          onEdit(saying.text);
          onDrop();
        }}
      >
        {t("chat.saying.edit")}
      </button>
      <button type="button" className="quiet-button" onClick={onDrop} aria-label={t("chat.saying.discard")}>
        <X size={14} aria-hidden />
      </button>
    </div>
  );
}
