// The parts of the page, put together once: connection, chat, desk, stage, and what watches over them.

import { language } from "./i18n/index.ts";
import { loadAnew, pageAccess } from "./runtime/access.ts";
import { proverFor } from "./runtime/handshake.ts";
import { openChat, type ChatSession } from "./runtime/chat-session.ts";
import { RuntimeClient, SHELL_VERSION, type Socket } from "./runtime/client.ts";
import { Store } from "./runtime/store.ts";
import { freshId, PAGE_TIME, type Time } from "./runtime/time.ts";
import { Desk } from "./workspace/desk.ts";
import { FocusGuard } from "./workspace/focus-guard.ts";
import { openGate } from "./workspace/gate-link.ts";
import type { Instance } from "./workspace/shapes.ts";
import { liveInstances } from "./workspace/shapes.ts";
import { Confirmer, decideShown, isLaidOut } from "./workspace/shown.ts";
import { Stage } from "./workspace/stage.ts";

export interface Parts {
  readonly client: RuntimeClient;
  readonly chat: ChatSession;
  readonly desk: Desk;
  readonly stage: Stage;
  readonly guard: FocusGuard;
  /** Whether a dialog of the page stands in front of everything. */
  readonly covered: Store<boolean>;
}

function connect(page: Window): Socket {
  const scheme = page.location.protocol === "https:" ? "wss:" : "ws:";
  return new WebSocket(`${scheme}//${page.location.host}/shell`) as unknown as Socket;
}

function isDark(page: Window): boolean {
  const chosen = page.document.documentElement.dataset["theme"];
  return chosen === undefined ? page.matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
}

/** Sooner than any timer. */
function soon(work: () => void): void {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    work();
  };
  port2.postMessage(null);
}

export function makeParts(page: Window, time: Time = PAGE_TIME): Parts {
  const { document } = page;
  const tab = freshId("tab");
  const sight = () => ({ visible: document.visibilityState === "visible", focused: document.hasFocus() });
  const client = new RuntimeClient({
    connect: () => connect(page),
    access: pageAccess(page),
    prove: proverFor(page.location.origin),
    outdated: loadAnew(page, SHELL_VERSION),
    time,
    greeting: () => ({ tab, language: language.get(), ...sight() }),
  });
  const chat = openChat(client, page.localStorage, time);
  const desk = new Desk(client, chat, page.localStorage);
  const stage = new Stage({
    open: (instance_id) => client.request("surface.open", { instance_id, theme: isDark(page) ? "dark" : "light" }),
    close: (launch, reason) => client.send("surface.close", { launch, reason }),
    sendText: (launch, text) => client.send("frame", { launch, text }),
    openGate,
    after: (wait_ms, work) => time.after(wait_ms, work),
    now: () => time.now(),
  });
  const guard = new FocusGuard({
    document,
    now: () => time.now(),
    after: (wait_ms, work) => time.after(wait_ms, work),
    next: soon,
    ageOf: (frame) => stage.ageOf(frame),
    isAppFrame: (element) => stage.instanceOf(element) !== null,
    onThief: (frame) => {
      const instance_id = stage.instanceOf(frame);
      if (instance_id !== null) stage.stop(instance_id, "protocol");
    },
  });
  const parts = { client, chat, desk, stage, guard, covered: new Store(false) };
  hold(page, parts, time);
  page.addEventListener("storage", (change) => {
    if (change.key === null || change.key.startsWith("lineloop.outbox.")) chat.reloadOutbox();
  });
  return parts;
}

/** Keeps the stage and the Runtime at what the page shows. */
function hold(page: Window, { client, desk, stage, covered }: Parts, time: Time): void {
  const { document } = page;
  const isVisible = () => document.visibilityState === "visible";
  const isOnScreen = (instance: Instance) => {
    const element = instance.surface
      ? stage.shownFrame(instance.instance_id)
      : document.querySelector(`.ground[data-instance="${CSS.escape(instance.instance_id)}"]`);
    return isLaidOut(element);
  };
  const confirmer = new Confirmer({
    look: () =>
      decideShown({
        workspace: desk.workspace.get(),
        visible: isVisible(),
        covered: covered.get() || client.link.get() !== "online",
        conversation_id: desk.conversation.get(),
        isOnScreen,
      }),
    send: (shown) => client.send("surface.shown", { ...shown }),
    afterPaint: (work) => page.requestAnimationFrame(() => page.requestAnimationFrame(work)),
  });
  const want = () => {
    const workspace = desk.workspace.get();
    stage.want({
      instances: [...liveInstances(workspace), ...workspace.closing],
      foreground: desk.shown(),
      mayOpen: client.link.get() === "online",
      cleared: desk.sheets.get().length > 0,
      visible: isVisible(),
    });
    confirmer.check();
  };
  for (const store of [desk.workspace, desk.conversation, desk.sheets, client.link, covered]) store.subscribe(want);
  stage.views.subscribe(() => confirmer.check());
  client.on("frame", ({ launch, text }) => {
    if (typeof launch === "string" && typeof text === "string") stage.text(launch, text);
  });
  client.on("surface.gone", ({ launch, reason }) => {
    if (typeof launch === "string") stage.gone(launch, typeof reason === "string" ? reason : "other");
  });
  client.onOnline(() => {
    stage.restart();
    confirmer.restart();
  });
  const tell = () => {
    client.send("page", { visible: isVisible(), focused: document.hasFocus() });
    if (isVisible() && client.link.get() === "gone") client.tryNow();
    want();
  };
  client.on("refused", ({ type, retry_ms }) => {
    if (type === "page" && typeof retry_ms === "number") time.after(retry_ms, tell);
  });
  document.addEventListener("visibilitychange", tell);
  page.addEventListener("focus", tell);
  page.addEventListener("blur", tell);
  page.addEventListener("online", () => client.tryNow());
  page.addEventListener("resize", () => confirmer.check());
}
