// The consent sheet: what an agent wants to do with an app, decided by a person.
//
// It stands outside every frame, over everything, and while it does no app is on the page. What it says comes from
// the Runtime alone; texts of apps and agents are shown with nothing hidden in them.

import { ShieldAlert } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { inLanguage } from "../i18n/bilingual.ts";
import { useLanguage, useText } from "../i18n/index.ts";
import { Arming } from "./arming.ts";
import { Modal } from "./modal.tsx";
import type { Sheet } from "./shapes.ts";
import { visibleLine, visibleText } from "./visible-text.ts";

export interface ConsentProps {
  readonly sheet: Sheet;
  /** How many more wait behind it. */
  readonly more: number;
  readonly conversation: string;
  readonly onAnswer: (call_ref: string, allowed: boolean) => Promise<void>;
}

function isTouch(): boolean {
  return window.matchMedia?.("(hover: none)").matches ?? false;
}

/** Whether the buttons work yet. */
function useArmed(): boolean {
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    if (armed) return undefined;
    const arming = new Arming({ now: () => performance.now(), touch: isTouch() });
    const check = () => setArmed(arming.armed);
    const move = (event: PointerEvent) => {
      arming.moved(event.clientX, event.clientY);
      check();
    };
    const press = (event: KeyboardEvent) => {
      arming.pressed(event.key);
      check();
    };
    const timer = setTimeout(check, arming.left() + 10);
    document.addEventListener("pointermove", move, true);
    document.addEventListener("keydown", press, true);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("pointermove", move, true);
      document.removeEventListener("keydown", press, true);
    };
  }, [armed]);
  return armed;
}

export function Consent({ sheet, more, conversation, onAnswer }: ConsentProps) {
  const t = useText();
  const tool = inLanguage(sheet.tool_title, useLanguage());
  const armed = useArmed();
  const refuse = useRef<HTMLButtonElement>(null);
  const [sending, setSending] = useState(false);
  const [failed, setFailed] = useState(false);
  const answer = (allowed: boolean) => {
    if (!armed || sending) return;
    setSending(true);
    setFailed(false);
    onAnswer(sheet.call_ref, allowed).catch(() => {
      setSending(false);
      setFailed(true);
    });
  };
  return (
    <Modal className="consent" labelledBy="consent-title" onEscape={() => armed && refuse.current?.focus()}>
      <header className="consent-head">
        <span className="consent-sign" data-risk={sheet.risk}>
          <ShieldAlert aria-hidden size={22} />
        </span>
        <div>
          <h2 id="consent-title">{t("consent.title", { tool: visibleLine(tool) })}</h2>
          <p>{t("consent.asks", { agent: visibleLine(sheet.agent), app: visibleLine(sheet.app_title) })}</p>
        </div>
      </header>
      <Facts sheet={sheet} conversation={conversation} />
      {failed && (
        <p className="consent-failed" role="alert">
          {t("consent.failed")}
        </p>
      )}
      <footer className="consent-foot">
        <p className="consent-wait" aria-hidden={armed} data-armed={armed}>
          {armed ? (more > 0 ? t("consent.more", { count: more }) : "") : t("consent.wait")}
        </p>
        <button ref={refuse} type="button" className="button" aria-disabled={!armed || sending} onClick={() => answer(false)}>
          {t("consent.refuse")}
        </button>
        <button type="button" className="button primary" aria-disabled={!armed || sending} onClick={() => answer(true)}>
          {t("consent.allow")}
        </button>
      </footer>
    </Modal>
  );
}

function Facts({ sheet, conversation }: { readonly sheet: Sheet; readonly conversation: string }) {
  const t = useText();
  const params = Object.entries(sheet.params);
  return (
    <dl className="fact-list">
      <dt>{t("consent.app")}</dt>
      <dd>
        <strong>{visibleLine(sheet.app_title)}</strong> <code>{visibleLine(sheet.app_scope)}</code>
      </dd>
      <dt>{t("consent.publisher")}</dt>
      <dd>
        {sheet.publisher === null ? (
          <span className="consent-unsigned">{t("consent.no_publisher")}</span>
        ) : (
          <code>{visibleLine(sheet.publisher)}</code>
        )}
      </dd>
      <dt>{t("consent.risk")}</dt>
      <dd data-risk={sheet.risk}>{riskText(t, sheet.risk)}</dd>
      {conversation !== "" && (
        <>
          <dt>{t("consent.conversation")}</dt>
          <dd>{visibleLine(conversation)}</dd>
        </>
      )}
      <dt>{t("consent.params")}</dt>
      <dd>
        {params.length === 0 ? (
          t("consent.no_params")
        ) : (
          <div className="consent-params" tabIndex={0} role="group" aria-label={t("consent.params")}>
            <dl>
              {params.map(([name, value]) => (
                <div key={name}>
                  <dt>{visibleLine(name)}</dt>
                  <dd>{visibleText(typeof value === "string" ? value : JSON.stringify(value, null, 2))}</dd>
                </div>
              ))}
            </dl>
          </div>
        )}
      </dd>
    </dl>
  );
}

function riskText(t: ReturnType<typeof useText>, risk: string): string {
  if (risk === "low" || risk === "medium" || risk === "high") return t(`consent.risk.${risk}`);
  return visibleLine(risk);
}
