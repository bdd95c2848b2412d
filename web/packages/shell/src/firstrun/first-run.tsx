// The first screen of somebody new: no model has been chosen yet. It can be passed over; the settings have it too.

import { useText } from "../i18n/index.ts";
import type { Desk } from "../workspace/desk.ts";
import { Mark } from "../workspace/rail.tsx";
import { Modal } from "../workspace/modal.tsx";
import type { FirstScreen } from "./beginning.ts";
import { ModelChoice } from "./model-choice.tsx";

export function FirstRun({ desk, screen }: { readonly desk: Desk; readonly screen: FirstScreen }) {
  const t = useText();
  return (
    <Modal className="first-run" labelledBy="first-run-title" onEscape={() => undefined}>
      <header>
        <Mark />
        <h1 id="first-run-title">{t("model.title")}</h1>
        <p className="lead">{t("model.lead")}</p>
      </header>
      <ModelChoice desk={desk} onChosen={screen.done} onDemo={screen.startDemo} failed={screen.failed} level={2} />
      <footer>
        <button type="button" className="button quiet" onClick={screen.done}>
          {t("model.skip")}
        </button>
      </footer>
    </Modal>
  );
}
