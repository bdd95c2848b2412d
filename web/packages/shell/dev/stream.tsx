// ?scene=talk|cards|offline|begin|bench &theme=light|dark &lang=en|zh &docked=1 &messages=2000 &rate=100 &seconds=10

import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { Chat } from "../src/chat/index.tsx";
import { language } from "../src/i18n/index.ts";
import "../src/styles/tokens.css";
import "../src/styles/page.css";
import { FakeCore, ROOT } from "../tests/chat/fake-core.ts";
import { SCENES, stream, type SceneName } from "./scenes.ts";

const wanted = new URLSearchParams(location.search);
const theme = wanted.get("theme");
const lang = wanted.get("lang") === "zh" ? "zh" : "en";
const scene = (wanted.get("scene") ?? "talk") as SceneName;
const docked = wanted.get("docked") === "1";

if (theme !== null) document.documentElement.dataset["theme"] = theme;
document.documentElement.lang = lang;
language.set(lang);

const core = new FakeCore();
const tell = SCENES[scene](core, lang, Number(wanted.get("messages") ?? 2000));

function Page() {
  const [conversationId, setConversationId] = useState<string | null>(scene === "begin" ? null : ROOT);
  return <Chat core={core} docked={docked} conversationId={conversationId} onConversation={setConversationId} />;
}

const root = document.getElementById("root") as HTMLElement;
root.dataset["docked"] = String(docked);
const page = wanted.get("strict") === "0" ? <Page /> : <StrictMode><Page /></StrictMode>;
createRoot(root).render(page);

// The snapshot comes once the chat follows the conversation.
const waiting = setInterval(() => {
  if (core.followings.size === 0) return;
  clearInterval(waiting);
  tell();
  document.documentElement.dataset["ready"] = "true";
}, 10);

/** The bench starts it: `rate` tokens per second for `seconds`; resolves with how many were told. */
Object.assign(globalThis, {
  startStream: (rate: number, seconds: number) => stream(core, rate, seconds),
});
