// Keys that belong to an input method: while one composes, Enter picks a candidate and sends nothing.

import type { KeyboardEvent } from "react";

const IN_COMPOSITION = 229;

export function isComposing(event: KeyboardEvent): boolean {
  return event.nativeEvent.isComposing || event.keyCode === IN_COMPOSITION;
}
