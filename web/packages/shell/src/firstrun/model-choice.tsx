// Choosing who answers: a model on this computer, one at a provider, or the demo, which says that it is none.

import { Cpu, KeyRound, RefreshCw, Play } from "lucide-react";
import { createContext, use, useCallback, useEffect, useState, type FormEvent, type ReactNode } from "react";
import { useText, type Text } from "../i18n/index.ts";
import { announce } from "../runtime/announce.ts";
import { DEMO } from "../runtime/chat-core.ts";
import type { Desk } from "../workspace/desk.ts";
import type { FoundServer } from "../workspace/shapes.ts";
import { visibleLine } from "../workspace/visible-text.ts";

/** The names of hosted models begin with this; what stands behind it is the provider's own name. */
const HOSTED = "openai:";

type Attempt = { readonly target: string } | null;

export interface ModelChoiceProps {
  readonly desk: Desk;
  readonly onChosen: () => void;
  /** Starts the demo; without it the demo is chosen here, as every other. */
  readonly onDemo?: () => void;
  /** Why the last choice failed, when it was made elsewhere. */
  readonly failed?: unknown;
  /** The level of its headings: one below what stands over it. */
  readonly level: 2 | 3;
}

export function ModelChoice({ desk, onChosen, onDemo, failed = null, level }: ModelChoiceProps) {
  const t = useText();
  const [attempt, setAttempt] = useState<Attempt>(null);
  const [failure, setFailure] = useState(() => (failed === null ? null : failureText(t, failed)));
  const choose = async (target: string, label: string, key: string | null) => {
    if (attempt !== null) return;
    setAttempt({ target });
    setFailure(null);
    try {
      await desk.chooseModel(target, key);
      announce(t("model.chosen", { model: label }));
      onChosen();
    } catch (error) {
      setFailure(failureText(t, error));
    } finally {
      setAttempt(null);
    }
  };
  return (
    <Level value={level}>
      <div className="model-choice" aria-busy={attempt !== null}>
        <LocalModels desk={desk} busy={attempt?.target ?? null} onChoose={(target, label) => void choose(target, label, null)} />
        <HostedModel
          busy={attempt !== null}
          onChoose={(name, key) => void choose(HOSTED + name, name, key)}
        />
        <Option icon={<Play aria-hidden size={20} strokeWidth={1.75} />} title={t("model.demo")} why={t("model.demo.why")} short>
          <button
            type="button"
            className="button"
            disabled={attempt !== null}
            onClick={onDemo ?? (() => void choose(DEMO, t("model.demo"), null))}
          >
            {t("model.demo.use")}
          </button>
        </Option>
        {failure !== null && (
          <p className="model-failure" role="alert">
            {failure}
          </p>
        )}
      </div>
    </Level>
  );
}

const Level = createContext<2 | 3>(2);

function Option(props: { icon: ReactNode; title: string; why: string; short?: boolean; children: ReactNode }) {
  const Heading = `h${use(Level)}` as const;
  return (
    <section className="model-option" data-short={props.short}>
      <span className="model-option-icon">{props.icon}</span>
      <div className="model-option-text">
        <Heading>{props.title}</Heading>
        <p>{props.why}</p>
      </div>
      <div className="model-option-act">{props.children}</div>
    </section>
  );
}

interface LocalProps {
  readonly desk: Desk;
  readonly busy: string | null;
  readonly onChoose: (target: string, label: string) => void;
}

function LocalModels({ desk, busy, onChoose }: LocalProps) {
  const t = useText();
  const [found, setFound] = useState<readonly FoundServer[] | null>(null);
  const look = useCallback(async () => {
    setFound(null);
    setFound(await desk.findModels().catch(() => []));
  }, [desk]);
  useEffect(() => {
    void look();
  }, [look]);
  return (
    <Option icon={<Cpu aria-hidden size={20} strokeWidth={1.75} />} title={t("model.local")} why={t("model.local.why")}>
      {found === null && (
        <p className="model-note">
          <span className="spinner" aria-hidden /> {t("model.looking")}
        </p>
      )}
      {found?.length === 0 && (
        <p className="model-note">
          {t("model.none")}{" "}
          <button type="button" className="button quiet small" onClick={() => void look()}>
            <RefreshCw aria-hidden size={14} /> {t("model.again")}
          </button>
        </p>
      )}
      {found !== null && found.length > 0 && (
        <ul className="model-list">
          {found.flatMap((server) =>
            server.models.length === 0
              ? [
                  <li key={server.id} className="model-note">
                    <strong>{visibleLine(server.label)}</strong> {t("model.empty")}
                  </li>,
                ]
              : server.models.map((name) => {
                  const target = `${server.id}:${name}`;
                  return (
                    <li key={target}>
                      <button
                        type="button"
                        className="model-row"
                        disabled={busy !== null}
                        data-busy={busy === target || undefined}
                        onClick={() => onChoose(target, name)}
                      >
                        <span className="model-name">{visibleLine(name)}</span>
                        <span className="model-server">{busy === target ? t("model.choosing") : visibleLine(server.label)}</span>
                      </button>
                    </li>
                  );
                }),
          )}
        </ul>
      )}
    </Option>
  );
}

function HostedModel({ busy, onChoose }: { busy: boolean; onChoose: (name: string, key: string) => void }) {
  const t = useText();
  const [name, setName] = useState("");
  const [key, setKey] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() !== "" && key.trim() !== "") onChoose(name.trim(), key.trim());
  };
  return (
    <Option icon={<KeyRound aria-hidden size={20} strokeWidth={1.75} />} title={t("model.hosted")} why={t("model.hosted.why")}>
      <form className="model-hosted" onSubmit={submit}>
        <label>
          <span>{t("model.hosted.name")}</span>
          <input value={name} onChange={(event) => setName(event.target.value)} placeholder="gpt-5-mini" spellCheck={false} autoCapitalize="off" autoComplete="off" required />
        </label>
        <label>
          <span>{t("model.hosted.key")}</span>
          <input type="password" value={key} onChange={(event) => setKey(event.target.value)} placeholder="sk-…" autoComplete="off" spellCheck={false} required />
        </label>
        <button type="submit" className="button" disabled={busy}>
          {busy ? t("model.choosing") : t("model.hosted.use")}
        </button>
      </form>
    </Option>
  );
}

function failureText(t: Text, error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  return code === "connection_lost" ? t("model.gone") : t("model.failed", { reason: message ?? "" });
}
