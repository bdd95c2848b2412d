// The rail: the chat, the apps that run, the apps that can be opened, and how the page stands. On a phone it lies
// at the bottom. Arrow keys walk along it; only one of its buttons is in the order of Tab.

import { MessagesSquare, Settings as Gear } from "lucide-react";
import { useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { useText } from "../i18n/index.ts";
import { announce } from "../runtime/announce.ts";
import { useStore } from "../runtime/store.ts";
import { AppIcon } from "./app-icon.tsx";
import type { Desk } from "./desk.ts";
import { liveInstances, type AppRow, type Instance } from "./shapes.ts";
import { StatusSign } from "./status.tsx";
import { visibleLine } from "./visible-text.ts";

const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

interface Place {
  readonly id: string;
  readonly label: string;
  readonly name: string;
  readonly picture: ReactNode;
  readonly current: boolean;
  readonly badge: string | null;
  readonly waits: boolean;
  readonly disabled: boolean;
  readonly group: "chat" | "running" | "app";
  readonly act: () => void;
}

export function Rail({ desk, onSettings }: { readonly desk: Desk; readonly onSettings: () => void }) {
  const t = useText();
  const places = usePlaces(desk);
  const list = useRef<HTMLElement>(null);
  const [stop, setStop] = useState(0);
  const walk = (event: KeyboardEvent) => {
    const buttons = [...(list.current?.querySelectorAll("button") ?? [])];
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    const step = STEPS[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? buttons.length - 1 : step === undefined ? null : at + step;
    if (to === null || at < 0) return;
    event.preventDefault();
    const next = (to + buttons.length) % buttons.length;
    setStop(next);
    buttons[next]?.focus();
  };
  const tabStop = Math.min(stop, places.length);
  return (
    <nav className="rail" aria-label={t("rail.label")} ref={list} onKeyDown={walk}>
      <Mark />
      <ul className="rail-places">
        {places.map((place, index) => (
          <li key={place.id} data-group={place.group}>
            <button
              type="button"
              className="rail-place"
              aria-label={place.name}
              aria-current={place.current ? "page" : undefined}
              aria-disabled={place.disabled || undefined}
              data-waits={place.waits || undefined}
              tabIndex={index === tabStop ? 0 : -1}
              title={place.name}
              onFocus={() => setStop(index)}
              onClick={() => !place.disabled && place.act()}
            >
              <span className="rail-picture">
                {place.picture}
                {place.badge !== null && <span className="badge" data-count={place.badge} aria-hidden />}
              </span>
              <span className="rail-label">{place.label}</span>
            </button>
          </li>
        ))}
      </ul>
      <div className="rail-end">
        <StatusSign desk={desk} />
        <button
          type="button"
          className="rail-place"
          aria-label={t("rail.settings")}
          title={t("rail.settings")}
          tabIndex={tabStop === places.length ? 0 : -1}
          onFocus={() => setStop(places.length)}
          onClick={onSettings}
        >
          <span className="rail-picture">
            <Gear aria-hidden size={20} strokeWidth={1.75} />
          </span>
          <span className="rail-label" aria-hidden>
            {t("rail.settings")}
          </span>
        </button>
      </div>
    </nav>
  );
}

function usePlaces(desk: Desk): readonly Place[] {
  const t = useText();
  const { apps } = useStore(desk.apps);
  const workspace = useStore(desk.workspace);
  const state = useStore(desk.chat.state);
  const conversation = useStore(desk.conversation);
  const launching = useStore(desk.launching);
  const shown = desk.shown();
  const unread = (state?.conversations ?? []).reduce((sum, row) => sum + row.unread, 0);
  const titleOf = (id: string) => state?.conversations.find((row) => row.id === id)?.title ?? "";
  const fail = (error: unknown) => announce(t("workspace.failed", { reason: error instanceof Error ? error.message : "" }));
  const iconOf = (scope: string) => apps.find((app) => app.app_scope === scope)?.icon ?? null;

  const chat: Place = {
    id: "chat",
    label: t("rail.chat"),
    name: unread === 0 ? t("rail.chat") : `${t("rail.chat")}, ${t("rail.unread", { count: unread })}`,
    picture: <MessagesSquare aria-hidden size={20} strokeWidth={1.75} />,
    current: shown === null,
    badge: unread === 0 ? null : unread > 99 ? "99+" : String(unread),
    waits: false,
    disabled: false,
    group: "chat",
    act: () => shown !== null && desk.showChat(),
  };
  const running = liveInstances(workspace).map((instance: Instance): Place => {
    const title = visibleLine(instance.title, 40);
    const where = t("rail.running_in", { app: title, conversation: visibleLine(titleOf(instance.conversation_id), 60) });
    const waits = !instance.confirmed && instance.instance_id !== shown?.instance_id;
    return {
      id: instance.instance_id,
      label: title,
      name: waits ? `${where}, ${t("rail.waiting")}` : where,
      picture: <AppIcon app_scope={instance.app_scope} title={title} icon={iconOf(instance.app_scope)} />,
      current: instance.instance_id === shown?.instance_id,
      badge: null,
      waits,
      disabled: false,
      group: "running",
      act: () => void desk.showApp(instance).catch(fail),
    };
  });
  const here = new Set(
    liveInstances(workspace).filter((one) => one.conversation_id === conversation).map((one) => one.app_scope),
  );
  const others = apps.filter((app) => app.has_surface && app.enabled && app.kind !== "core" && !here.has(app.app_scope));
  return [
    chat,
    ...running,
    ...others.map((app: AppRow): Place => {
      const title = visibleLine(app.title, 40);
      const name =
        app.unavailable === null
          ? t("rail.open", { app: title })
          : t("rail.unavailable", { app: title, reason: visibleLine(app.unavailable) });
      return {
        id: `app:${app.app_scope}`,
        label: title,
        name,
        picture: <AppIcon app_scope={app.app_scope} title={title} icon={app.icon} />,
        current: false,
        badge: null,
        waits: launching === app.app_scope,
        disabled: app.unavailable !== null,
        group: "app",
        act: () => void desk.launch(app.app_scope, title).catch(fail),
      };
    }),
  ];
}

/** Our sign: a line that runs, turns once, and goes on. */
export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 32 32" aria-hidden focusable="false">
      <path d="M3 21.5h11.200c4.600 0 8.300-2.900 8.300-6.600S19.800 9 17 9s-5.200 2.300-5.200 5.900 3.700 6.600 8.300 6.600H29" />
    </svg>
  );
}
