// Whether the first screen stands above the page, and what becomes of the demo that is started on it.
//
// The demo needs nothing that could be wrong, so the screen goes at once and one can write; should it fail after
// all, the screen comes back and says why.

import { useEffect, useRef, useState } from "react";
import { hasKeyboard } from "../chat/view/composing.ts";
import { useText } from "../i18n/index.ts";
import { announce } from "../runtime/announce.ts";
import { DEMO } from "../runtime/chat-core.ts";
import type { Desk } from "../workspace/desk.ts";
import { pass, useModelChosen, wasPassed } from "./passed.ts";

export interface FirstScreen {
  readonly shown: boolean;
  /** Why the demo did not start; null when it was not tried or did. */
  readonly failed: unknown;
  startDemo(): void;
  done(): void;
}

export function useFirstScreen(desk: Pick<Desk, "model" | "chooseModel">): FirstScreen {
  const t = useText();
  const chosen = useModelChosen(desk);
  const [passed, setPassed] = useState(() => wasPassed(localStorage));
  const [starting, setStarting] = useState(false);
  const [failed, setFailed] = useState<unknown>(null);
  const shown = chosen === false && !passed && !starting;
  const wasShown = useRef(false);
  useEffect(() => {
    if (wasShown.current && !shown && hasKeyboard()) {
      document.querySelector<HTMLElement>(".composer textarea")?.focus({ preventScroll: true });
    }
    wasShown.current = shown;
  }, [shown]);
  const done = () => {
    pass(localStorage);
    setPassed(true);
  };
  const startDemo = () => {
    setStarting(true);
    setFailed(null);
    desk
      .chooseModel(DEMO, null)
      .then(() => {
        announce(t("model.chosen", { model: t("model.demo") }));
        done();
      }, setFailed)
      .finally(() => setStarting(false));
  };
  return { shown, failed, startDemo, done };
}
