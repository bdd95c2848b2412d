// How the page stands: one sign that is always there, one strip when something is wrong.

import { useEffect, useState } from "react";
import { useText, type Text } from "../i18n/index.ts";
import { announcement } from "../runtime/announce.ts";
import type { Connection, LinkPhase } from "../runtime/chat-core.ts";
import { useStore } from "../runtime/store.ts";
import type { Desk } from "./desk.ts";

/** Opens the Runtime that runs, wherever it is, with a link that works once. */
export const OPEN_COMMAND = "lineloop open";

export type Standing = "good" | "busy" | "waiting" | "bad";

export function standing(link: LinkPhase, connection: Connection): Standing {
  if (link === "gone" || link === "unauthenticated") return "bad";
  if (link === "connecting") return "busy";
  if (connection.state === "offline") return "waiting";
  return connection.state === "online" ? "good" : "busy";
}

export function standingText(t: Text, link: LinkPhase, connection: Connection): string {
  if (link === "gone" || link === "unauthenticated") return t("link.gone");
  if (link === "connecting") return t("link.connecting");
  if (connection.state === "offline") return t("connection.offline", { waiting: connection.waiting });
  return t(`connection.${connection.state}`);
}

function shortText(t: Text, link: LinkPhase, connection: Connection): string {
  if (link === "gone" || link === "unauthenticated") return t("link.gone.short");
  if (link === "connecting") return t("connection.connecting.short");
  return connection.state === "online" ? t("connection.online") : t(`connection.${connection.state}.short`);
}

export function StatusSign({ desk }: { readonly desk: Desk }) {
  const t = useText();
  const link = useStore(desk.client.link);
  const connection = useStore(desk.connection);
  return (
    <div className="status" data-standing={standing(link, connection)} title={standingText(t, link, connection)}>
      <span className="status-dot" aria-hidden />
      <span className="status-text">{shortText(t, link, connection)}</span>
    </div>
  );
}

function useSeconds(until: number | null): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (until === null) return undefined;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [until]);
  return until === null ? 0 : Math.max(0, Math.ceil((until - now) / 1000));
}

const LONG_GONE_MS = 10_000;

/** Whether the Runtime has been gone for so long that it may be somewhere else. */
function useLongGone(link: LinkPhase): boolean {
  const [long, setLong] = useState(false);
  useEffect(() => {
    if (link !== "gone") {
      setLong(false);
      return undefined;
    }
    const timer = setTimeout(() => setLong(true), LONG_GONE_MS);
    return () => clearTimeout(timer);
  }, [link]);
  return long;
}

/** The strip over everything while the Runtime is gone; nothing is lost, and it says so. */
export function GoneStrip({ desk }: { readonly desk: Desk }) {
  const t = useText();
  const link = useStore(desk.client.link);
  const nextTry = useStore(desk.client.nextTry);
  const seconds = useSeconds(nextTry);
  const long = useLongGone(link);
  if (link !== "gone") return null;
  return (
    <section className="strip" data-standing="bad" aria-label={t("link.gone")}>
      <strong>{t("link.gone")}</strong>
      <span>{t("link.gone.kept")}</span>
      {long && (
        <span>
          {t("link.gone.elsewhere")} <code>{OPEN_COMMAND}</code>
        </span>
      )}
      <span className="strip-next">{t("link.gone.next", { seconds: nextTry === null ? 0 : seconds })}</span>
      <button type="button" className="button small" onClick={() => desk.client.tryNow()}>
        {t("link.gone.now")}
      </button>
    </section>
  );
}

/** The one place that is read aloud. */
export function LiveRegion() {
  const { text, number } = useStore(announcement);
  return (
    <div className="aloud" role="status" aria-live="polite">
      <span key={number}>{text}</span>
    </div>
  );
}
