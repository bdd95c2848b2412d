// Where a conversation begins: what one may say first, and which model listens.

import { DEMO, type ChatState } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import { refusalText } from "../model/refusal-words.ts";

export interface BeginningProps {
  readonly state: ChatState | null;
  /** Why the last attempt failed; null when there was none. */
  readonly failed: string | null;
  readonly onPick: (text: string) => void;
}

const EXAMPLES = ["chat.begin.example_1", "chat.begin.example_2", "chat.begin.example_3"] as const;

export function Beginning({ state, failed, onPick }: BeginningProps) {
  const t = useText();
  const model = state?.model ?? null;
  return (
    <div className="beginning">
      <h2>{t("chat.begin.title")}</h2>
      <p>{t("chat.begin.how")}</p>
      <ul>
        {EXAMPLES.map((key) => (
          <li key={key}>
            <button type="button" onClick={() => onPick(t(key))}>
              {t(key)}
            </button>
          </li>
        ))}
      </ul>
      {model === null ? null : (
        <p className="beginning-model">
          {model.target === DEMO ? t("chat.begin.demo") : t("chat.begin.model", { model: model.label })}
        </p>
      )}
      {failed === null ? null : (
        <p className="beginning-failed" role="alert">
          {t("chat.begin.failed")} {refusalText(t, failed)} <code>{failed}</code>
        </p>
      )}
    </div>
  );
}
