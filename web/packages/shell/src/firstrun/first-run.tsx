// The first screen of somebody new: no model has been chosen yet. It can be passed over; the settings have it too.

import { useText } from "../i18n/index.ts";
import { useStore } from "../runtime/store.ts";
import type { Desk } from "../workspace/desk.ts";
import { Mark } from "../workspace/rail.tsx";
import { Modal } from "../workspace/modal.tsx";
import { ModelChoice } from "./model-choice.tsx";

const PASSED = "lineloop.firstrun.passed";

export function wasPassed(storage: Storage): boolean {
  try {
    return storage.getItem(PASSED) !== null;
  } catch {
    return false;
  }
}

export function pass(storage: Storage): void {
  try {
    storage.setItem(PASSED, "1");
  } catch {
    // Forbidden: the screen comes again with the next page.
  }
}

/** Whether the Runtime says that a model was chosen; null while that is not known. */
export function useModelChosen(desk: Desk): boolean | null {
  const welcome = useStore(desk.client.welcome);
  const model = welcome?.["model"];
  if (typeof model !== "object" || model === null || !("chosen" in model)) return null;
  return model["chosen"] === true;
}

export function FirstRun({ desk, onDone }: { readonly desk: Desk; readonly onDone: () => void }) {
  const t = useText();
  return (
    <Modal className="first-run" labelledBy="first-run-title" onEscape={() => undefined}>
      <header>
        <Mark />
        <h1 id="first-run-title">{t("model.title")}</h1>
        <p className="lead">{t("model.lead")}</p>
      </header>
      <ModelChoice desk={desk} onChosen={onDone} />
      <footer>
        <button type="button" className="button quiet" onClick={onDone}>
          {t("model.skip")}
        </button>
      </footer>
    </Modal>
  );
}
