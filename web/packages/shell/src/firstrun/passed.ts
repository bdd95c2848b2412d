// Whether the first screen is still to be shown: no model chosen, and not passed over in this browser.

import { useStore } from "../runtime/store.ts";
import type { Desk } from "../workspace/desk.ts";

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
export function useModelChosen(desk: Pick<Desk, "model">): boolean | null {
  return useStore(desk.model)?.chosen ?? null;
}
