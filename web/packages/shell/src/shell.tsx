// The page: rail, app and chat side by side, and the few things that stand above them.

import { ChevronUp } from "lucide-react";
import { lazy, Suspense, useCallback, useEffect, useRef, useState } from "react";
import { Chat } from "./chat/index.tsx";
import { useFirstScreen } from "./firstrun/beginning.ts";
import { Door } from "./firstrun/door.tsx";
import { useText } from "./i18n/index.ts";
import type { Parts } from "./parts.ts";
import { announce } from "./runtime/announce.ts";
import { useStore } from "./runtime/store.ts";
import { AppPictures } from "./workspace/app-icon.tsx";
import { Consent } from "./workspace/consent.tsx";
import type { Instance } from "./workspace/shapes.ts";
import { Mark, Rail } from "./workspace/rail.tsx";
import { GoneStrip, LiveRegion } from "./workspace/status.tsx";
import { visibleLine } from "./workspace/visible-text.ts";
import { WorkspaceArea } from "./workspace/workspace.tsx";

const DRAG_PX = 24;

// Not needed to begin with. Fetched while the Runtime is there, because they are wanted when it is not, too.
const fetchFirstRun = () => import("./firstrun/first-run.tsx");
const fetchSettings = () => import("./settings/settings.tsx");
const FirstRun = lazy(() => fetchFirstRun().then((part) => ({ default: part.FirstRun })));
const Settings = lazy(() => fetchSettings().then((part) => ({ default: part.Settings })));
const FETCH_AFTER_MS = 1_000;

export function Shell({ parts }: { readonly parts: Parts }) {
  const link = useStore(parts.client.link);
  const welcome = useStore(parts.client.welcome);
  return (
    <>
      {link === "unauthenticated" ? <Door /> : welcome === null ? <Waiting parts={parts} /> : <Rooms parts={parts} />}
      <LiveRegion />
    </>
  );
}

function Waiting({ parts }: { readonly parts: Parts }) {
  const t = useText();
  return (
    <main className="waiting">
      <GoneStrip desk={parts.desk} />
      <Mark />
      <p>{t("link.connecting")}</p>
    </main>
  );
}

function Rooms({ parts }: { readonly parts: Parts }) {
  const { desk, stage, guard, chat } = parts;
  const t = useText();
  const [settings, setSettings] = useState(false);
  // The workspace and the conversation together decide what stands beside the chat.
  useStore(desk.workspace);
  const conversation = useStore(desk.conversation);
  const { apps } = useStore(desk.apps);
  const pictureOf = useCallback((scope: string) => apps.find((app) => app.app_scope === scope)?.icon ?? null, [apps]);
  const shown = desk.shown();
  useAnnouncements(parts, shown);
  useEffect(() => {
    const timer = setTimeout(() => void fetchSettings().catch(() => undefined), FETCH_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="shell" data-view={shown === null ? "chat" : "app"}>
      <GoneStrip desk={desk} />
      <Rail desk={desk} onSettings={() => setSettings(true)} />
      <main className="desk">
        <h1 className="aloud">{t("app.name")}</h1>
        <WorkspaceArea desk={desk} stage={stage} guard={guard} shown={shown} />
        <ChatColumn docked={shown !== null}>
          <AppPictures value={pictureOf}>
            <Chat
              core={chat}
              docked={shown !== null}
              conversationId={conversation}
              onConversation={(id) => desk.openConversation(id)}
            />
          </AppPictures>
        </ChatColumn>
      </main>
      <Above parts={parts} settings={settings} onSettings={setSettings} />
    </div>
  );
}

interface AboveProps {
  readonly parts: Parts;
  readonly settings: boolean;
  readonly onSettings: (open: boolean) => void;
}

/** One thing at a time stands above the page; a question of consent before everything else. */
function Above({ parts, settings, onSettings }: AboveProps) {
  const { desk, chat, covered } = parts;
  const sheets = useStore(desk.sheets);
  const state = useStore(chat.state);
  const link = useStore(parts.client.link);
  const firstScreen = useFirstScreen(desk);
  const first = sheets[0];
  const asks = first !== undefined && link === "online";
  const covers = asks || settings || firstScreen.shown;
  useEffect(() => covered.set(covers), [covered, covers]);
  if (asks) {
    const title = state?.conversations.find((row) => row.id === first.conversation_id)?.title ?? "";
    return (
      <Consent
        key={first.call_ref}
        sheet={first}
        more={sheets.length - 1}
        conversation={title}
        onAnswer={(call_ref, allowed) => desk.answerConsent(call_ref, allowed)}
      />
    );
  }
  if (firstScreen.shown) {
    return (
      <Suspense>
        <FirstRun desk={desk} screen={firstScreen} />
      </Suspense>
    );
  }
  return settings ? (
    <Suspense>
      <Settings desk={desk} onClose={() => onSettings(false)} />
    </Suspense>
  ) : null;
}

/** Beside the app when there is room; on a phone a sheet that can be drawn up and down. */
function ChatColumn({ docked, children }: { readonly docked: boolean; readonly children: React.ReactNode }) {
  const t = useText();
  const [up, setUp] = useState(false);
  const drag = useRef<{ readonly from: number; done: boolean } | null>(null);
  return (
    <section className="chat-column" data-docked={docked} data-up={up || undefined}>
      {docked && (
        <button
          type="button"
          className="sheet-handle"
          aria-expanded={up}
          aria-label={up ? t("sheet.close") : t("sheet.open")}
          onClick={() => {
            if (drag.current?.done !== true) setUp(!up);
            drag.current = null;
          }}
          onPointerDown={(event) => {
            drag.current = { from: event.clientY, done: false };
            event.currentTarget.setPointerCapture(event.pointerId);
          }}
          onPointerMove={(event) => {
            const moved = event.clientY - (drag.current?.from ?? event.clientY);
            if (drag.current === null || Math.abs(moved) < DRAG_PX) return;
            drag.current.done = true;
            setUp(moved < 0);
          }}
        >
          <span className="sheet-grip" aria-hidden />
          <span className="sheet-label">
            {t("sheet.chat")}
            <ChevronUp aria-hidden size={16} />
          </span>
        </button>
      )}
      <div className="chat-room">{children}</div>
    </section>
  );
}

function useAnnouncements({ client }: Parts, shown: Instance | null): void {
  const t = useText();
  const link = useStore(client.link);
  const wasGone = useRef(false);
  useEffect(() => {
    if (link === "gone" && !wasGone.current) announce(`${t("link.gone")}. ${t("link.gone.kept")}`);
    if (link === "online" && wasGone.current) announce(t("link.back"));
    wasGone.current = link === "gone" || (wasGone.current && link !== "online");
  }, [link, t]);
  const last = useRef<string | null>(null);
  const [id, title] = [shown?.instance_id ?? null, shown?.title ?? ""];
  useEffect(() => {
    if (id !== last.current) announce(id === null ? t("workspace.closed") : t("workspace.opened", { app: visibleLine(title, 60) }));
    last.current = id;
  }, [id, title, t]);
}
