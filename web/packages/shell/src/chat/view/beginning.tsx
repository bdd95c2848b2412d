// Where a conversation begins: what one may say first, and which model listens.

import { DEMO, type ChatState } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";

export interface BeginningProps {
  readonly state: ChatState | null;
  readonly onPick: (text: string) => void;
}

const EXAMPLES = ["chat.begin.example_1", "chat.begin.example_2", "chat.begin.example_3"] as const;

export function Beginning({ state, onPick }: BeginningProps) {
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
    </div>
  );
}
