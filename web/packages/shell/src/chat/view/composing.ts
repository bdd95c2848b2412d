// How people type: with an input method, whose Enter picks a candidate and sends nothing; on keys or on glass.

import type { KeyboardEvent } from "react";

const IN_COMPOSITION = 229;

export function isComposing(event: KeyboardEvent): boolean {
  return event.nativeEvent.isComposing || event.keyCode === IN_COMPOSITION;
}

/** Where one types on glass, the focus would bring up the keys unasked. */
export const hasKeyboard = (): boolean => globalThis.matchMedia?.("(pointer: fine)").matches ?? true;
