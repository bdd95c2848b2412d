// The time of day for what counts down: one timer for all of them, and none while nobody looks.

import { useSyncExternalStore } from "react";

/** Several times a second, so that two clocks on the page do not differ by one. */
const TICK_MS = 250;
const listeners = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  if (document.visibilityState === "hidden") return;
  now = Date.now();
  for (const listener of [...listeners]) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    now = Date.now();
    timer = setInterval(tick, TICK_MS);
    document.addEventListener("visibilitychange", tick);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
    document.removeEventListener("visibilitychange", tick);
  };
}

const nothing = (): (() => void) => () => undefined;

/** Epoch milliseconds, renewed four times a second while `active`. */
export function useNow(active: boolean): number {
  return useSyncExternalStore(active ? subscribe : nothing, () => now);
}
