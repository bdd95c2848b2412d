// How the chat stands to the server, when it is not simply there.

import { CloudOff, RefreshCw } from "lucide-react";
import type { ChatCore } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import { useStore } from "../../runtime/store.ts";

export function ConnectionNote({ core }: { readonly core: ChatCore }) {
  const t = useText();
  const link = useStore(core.link);
  const state = useStore(core.state);
  const kept = useStore(core.outbox).filter((one) => one.state === "waiting").length;
  const server = state?.connection.state ?? "connecting";
  const waiting = kept + (state?.connection.waiting ?? 0);
  // Of a Runtime that is gone the frame of the page speaks.
  if (link === "gone" || (link === "online" && server === "online")) return null;
  const away = server === "online" ? "connecting" : server;
  const Sign = away === "offline" ? CloudOff : RefreshCw;
  return (
    <p className="connection-note" data-state={away}>
      <Sign size={14} aria-hidden />
      <span>{t(`chat.connection.${away}`)}</span>
      {waiting > 0 ? <span>{t("chat.connection.waiting", { count: waiting })}</span> : null}
    </p>
  );
}
