// The surface's entry: connects it, and puts the timer on its page.

import { connect, type Language } from "@lineloop/app-sdk";
import { viewOf } from "./model.ts";
import { Screen } from "./screen.ts";
import "./timer.css";
import { Timer } from "./timer.ts";

const page = document.documentElement;
const language: Language = page.lang.startsWith("zh") ? "zh" : "en";
const root = document.getElementById("root") ?? document.body;
const screen = new Screen(root);
screen.show(viewOf(null, 0), language);

try {
  const surface = await connect();
  surface.state.subscribe(({ theme }) => {
    if (theme !== undefined) page.dataset["theme"] = theme;
  });
  const timer = new Timer(surface, screen, {
    now: () => performance.now(),
    after: (milliseconds, work) => {
      const handle = setTimeout(work, milliseconds);
      return () => clearTimeout(handle);
    },
  });
  timer.start();
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") timer.seen().catch(() => screen.lost(language));
  });
} catch {
  screen.lost(language);
}
