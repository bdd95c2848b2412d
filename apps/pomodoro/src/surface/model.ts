// What the timer shows, from what the Runtime projected and how long ago that was. Pure: it keeps no time itself.

import type { SurfaceState } from "@lineloop/app-sdk";

export type Phase = "connecting" | "empty" | "starting" | "running" | "completed" | "interrupted" | "ended";

export interface View {
  readonly phase: Phase;
  /** What the time is for, in the person's words. */
  readonly label: string | null;
  readonly durationMs: number;
  readonly elapsedMs: number;
  readonly remainingMs: number;
  /** When the time is up, RFC 3339; null when nothing runs. */
  readonly endsAt: string | null;
}

const NOTHING = { label: null, durationMs: 0, elapsedMs: 0, remainingMs: 0, endsAt: null };

/** `passedMs` is the time since the projection, on a clock that only goes forward. */
export function viewOf(state: SurfaceState | null, passedMs: number): View {
  if (state === null) return { ...NOTHING, phase: "connecting" };
  const { operation } = state;
  if (operation === null) return { ...NOTHING, phase: state.activation === "starting" ? "starting" : "empty" };
  const { duration_ms: durationMs, outcome } = operation;
  const passed = outcome === null ? Math.max(passedMs, 0) : 0;
  const remainingMs = Math.max(operation.remaining_ms - passed, 0);
  return {
    phase: phaseOf(outcome),
    label: labelOf(operation.params["label"]),
    durationMs,
    elapsedMs: Math.min(operation.elapsed_ms + passed, durationMs),
    remainingMs,
    endsAt: outcome === null ? operation.ends_at : null,
  };
}

function phaseOf(outcome: string | null): Phase {
  if (outcome === null) return "running";
  return outcome === "completed" || outcome === "interrupted" ? outcome : "ended";
}

function labelOf(label: unknown): string | null {
  return typeof label === "string" && label.trim() !== "" ? label.trim() : null;
}

/** The share of the ring that is still to come, 0 to 1. */
export function shareLeft({ phase, remainingMs, durationMs }: View): number {
  if (phase === "completed") return 1;
  return durationMs > 0 ? Math.min(remainingMs / durationMs, 1) : 0;
}

/** `m:ss`, or `h:mm:ss` from an hour on. A second that has begun counts, so that the last one is 0:01. */
export function clockText(milliseconds: number): string {
  const seconds = Math.ceil(milliseconds / 1000);
  const two = (value: number): string => String(value).padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** How long the text of a running clock stays true. */
export function msToNextText(milliseconds: number): number {
  return milliseconds % 1000 || 1000;
}
