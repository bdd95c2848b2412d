// The workspace: the app in the foreground, in its frame, under a bar of ours that names it.

import { Keyboard, MessageSquare, RotateCw, X } from "lucide-react";
import { useEffect, useRef } from "react";
import { useText, type Text } from "../i18n/index.ts";
import { announce } from "../runtime/announce.ts";
import { useStore } from "../runtime/store.ts";
import { AppIcon } from "./app-icon.tsx";
import type { Desk } from "./desk.ts";
import type { FocusGuard } from "./focus-guard.ts";
import type { Instance } from "./shapes.ts";
import type { FrameView, Stage } from "./stage.ts";
import { visibleLine } from "./visible-text.ts";

export interface WorkspaceProps {
  readonly desk: Desk;
  readonly stage: Stage;
  readonly guard: FocusGuard;
  /** The app beside the chat; null while the chat is everything (frames behind stay alive). */
  readonly shown: Instance | null;
}

export function WorkspaceArea({ desk, stage, guard, shown }: WorkspaceProps) {
  const t = useText();
  const ground = useRef<HTMLDivElement>(null);
  useEffect(() => (ground.current === null ? undefined : stage.mount(ground.current)), [stage]);
  const title = shown === null ? "" : visibleLine(shown.title, 60);
  return (
    <section
      className="workspace"
      hidden={shown === null}
      aria-label={shown === null ? undefined : t("workspace.label", { app: title })}
    >
      {shown !== null && <AppBar desk={desk} stage={stage} guard={guard} shown={shown} title={title} />}
      <div className="ground" data-instance={shown?.instance_id}>
        <div className="frames" ref={ground} />
        {shown !== null && <Cover desk={desk} stage={stage} guard={guard} shown={shown} title={title} />}
      </div>
    </section>
  );
}

interface PartProps extends WorkspaceProps {
  readonly shown: Instance;
  readonly title: string;
}

function AppBar({ desk, stage, guard, shown, title }: PartProps) {
  const t = useText();
  const { apps } = useStore(desk.apps);
  const views = useStore(stage.views);
  const icon = apps.find((app) => app.app_scope === shown.app_scope)?.icon ?? null;
  const enter = () => {
    const frame = stage.shownFrame(shown.instance_id);
    if (frame !== null) guard.grant(frame);
  };
  return (
    <header className="app-bar">
      <AppIcon app_scope={shown.app_scope} title={title} icon={icon} />
      <h2 title={shown.app_scope}>{title}</h2>
      {views.get(shown.instance_id)?.phase === "connected" && (
        <button type="button" className="button quiet small enter" onClick={enter}>
          <Keyboard aria-hidden size={16} />
          {t("workspace.enter", { app: title })}
        </button>
      )}
      <span className="app-bar-end">
        <button type="button" className="button quiet small" onClick={() => desk.showChat()}>
          <MessageSquare aria-hidden size={16} />
          <span className="wide-only">{t("workspace.back")}</span>
          <span className="aloud narrow-only">{t("workspace.back")}</span>
        </button>
        <button
          type="button"
          className="button quiet small square"
          aria-label={t("workspace.close", { app: title })}
          title={t("workspace.close", { app: title })}
          onClick={() => void desk.closeApp(shown).catch((error: unknown) => announce(failure(t, error)))}
        >
          <X aria-hidden size={18} />
        </button>
      </span>
    </header>
  );
}

/** What lies over the frame: nothing, the shield, or why there is no app to see. */
function Cover({ desk, stage, guard, shown, title }: PartProps) {
  const t = useText();
  const link = useStore(desk.client.link);
  const view = useStore(stage.views).get(shown.instance_id);
  const shielded = useStore(guard.shielded);
  if (link !== "online") return <Notice text={t("workspace.away", { app: title })} veil />;
  if (!shown.surface) return <Notice text={t("workspace.no_surface", { app: title })} />;
  if (view === undefined || view.phase === "opening") {
    return <Notice text={t("workspace.opening", { app: title })} busy />;
  }
  if (view.phase === "ended") return <Ended t={t} view={view} title={title} reopen={() => stage.reopen(shown.instance_id)} />;
  if (!view.responsive) {
    return (
      <div className="slow" role="alert">
        <p>
          <strong>{t("workspace.slow", { app: title })}</strong> {t("workspace.slow.kept")}
        </p>
        <button type="button" className="button small" onClick={() => stage.stop(shown.instance_id, "unresponsive")}>
          {t("workspace.slow.stop")}
        </button>
      </div>
    );
  }
  if (!shielded) return null;
  return (
    <div
      className="shield"
      title={t("workspace.shield", { app: title })}
      onPointerDown={(event) => {
        // The press is the shell's: the frame gets the focus only after it, and stays the only one that has it.
        event.preventDefault();
        const frame = stage.shownFrame(shown.instance_id);
        if (frame !== null) guard.grant(frame);
      }}
    />
  );
}

function Ended(props: { t: Text; view: FrameView & { phase: "ended" }; title: string; reopen: () => void }) {
  const { t, view, title, reopen } = props;
  return (
    <div className="notice" role="alert">
      <p>{endText(t, view.reason, title)}</p>
      <button type="button" className="button" onClick={reopen}>
        <RotateCw aria-hidden size={16} />
        {t("workspace.reopen")}
      </button>
    </div>
  );
}

function Notice({ text, busy = false, veil = false }: { text: string; busy?: boolean; veil?: boolean }) {
  return (
    <div className="notice" data-busy={busy || undefined} data-veil={veil || undefined}>
      {busy && <span className="spinner" aria-hidden />}
      <p>{text}</p>
    </div>
  );
}

const REASONS = ["crashed", "navigated", "flood", "protocol", "unresponsive", "not_opened"] as const;

export function endText(t: Text, reason: string, app: string): string {
  const known = REASONS.find((name) => name === reason);
  return known === undefined ? t("ended.other", { app }) : t(`ended.${known}`, { app });
}

function failure(t: Text, error: unknown): string {
  return t("workspace.failed", { reason: error instanceof Error ? error.message : "" });
}
