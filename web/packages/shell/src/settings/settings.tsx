// The settings: who answers, language, appearance, which browsers may come in, and what this is.

import { X } from "lucide-react";
import { useState } from "react";
import { ModelChoice } from "../firstrun/model-choice.tsx";
import { language, useText, type Language } from "../i18n/index.ts";
import { DEMO } from "../runtime/chat-core.ts";
import { chooseLanguage, chooseTheme, theme, type Theme } from "../runtime/preferences.ts";
import { useStore } from "../runtime/store.ts";
import type { Desk } from "../workspace/desk.ts";
import { Modal } from "../workspace/modal.tsx";
import { visibleLine } from "../workspace/visible-text.ts";
import { About } from "./about.tsx";
import { Browsers } from "./browsers.tsx";
import "./settings.css";

const THEMES: readonly Theme[] = ["system", "light", "dark"];
const LANGUAGES: readonly (readonly [Language, string])[] = [
  ["en", "English"],
  ["zh", "中文"],
];

export function Settings({ desk, onClose }: { readonly desk: Desk; readonly onClose: () => void }) {
  const t = useText();
  const chosenTheme = useStore(theme);
  const chosenLanguage = useStore(language);
  return (
    <Modal className="settings" labelledBy="settings-title" onEscape={onClose}>
      <header>
        <h1 id="settings-title">{t("settings.title")}</h1>
        <button type="button" className="button quiet square" aria-label={t("settings.close")} onClick={onClose}>
          <X aria-hidden size={20} />
        </button>
      </header>
      <ModelSetting desk={desk} />
      <Choices
        title={t("settings.language")}
        name="language"
        value={chosenLanguage}
        options={LANGUAGES}
        onChoose={(value) => chooseLanguage(window, value)}
      />
      <Choices
        title={t("settings.theme")}
        name="theme"
        value={chosenTheme}
        options={THEMES.map((name) => [name, t(`settings.theme.${name}`)] as const)}
        onChoose={(value) => chooseTheme(window, value)}
      />
      <Browsers desk={desk} />
      <About desk={desk} />
    </Modal>
  );
}

function ModelSetting({ desk }: { readonly desk: Desk }) {
  const t = useText();
  const [changing, setChanging] = useState(false);
  const model = useStore(desk.model);
  const label = model?.chosen !== true ? null : model.target === DEMO ? t("model.demo") : model.label;
  return (
    <section>
      <h2>{t("settings.model")}</h2>
      <p className="setting-row">
        <span>{label === null ? t("settings.model.none") : visibleLine(label)}</span>
        {!changing && (
          <button type="button" className="button small" onClick={() => setChanging(true)}>
            {t("settings.model.change")}
          </button>
        )}
      </p>
      {changing && <ModelChoice desk={desk} onChosen={() => setChanging(false)} level={3} />}
    </section>
  );
}

interface ChoicesProps<V extends string> {
  readonly title: string;
  readonly name: string;
  readonly value: V;
  readonly options: readonly (readonly [V, string])[];
  readonly onChoose: (value: V) => void;
}

function Choices<V extends string>({ title, name, value, options, onChoose }: ChoicesProps<V>) {
  return (
    <fieldset className="setting-choices">
      <legend>{title}</legend>
      <div className="setting-segments">
        {options.map(([option, label]) => (
          <label key={option} data-chosen={option === value || undefined}>
            <input type="radio" name={name} value={option} checked={option === value} onChange={() => onChoose(option)} />
            <span>{label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
