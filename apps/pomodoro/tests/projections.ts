// Projections as the Runtime makes them.

import type { OperationState, SurfaceState } from "@lineloop/app-sdk";

export const MINUTE = 60_000;

export function state(fields: Partial<SurfaceState> = {}): SurfaceState {
  return {
    instance_state: "foreground",
    now: "2026-01-02T03:04:05.000Z",
    operation: null,
    activation: null,
    language: "en",
    ...fields,
  };
}

export function running(remaining: number, fields: Partial<OperationState> = {}): SurfaceState {
  const duration = 25 * MINUTE;
  const operation: OperationState = {
    name: "pomodoro.start",
    params: { minutes: 25, label: "Reading" },
    state: "active",
    outcome: null,
    started_at: "2026-01-02T03:04:05.000Z",
    ends_at: "2026-01-02T03:29:05.000Z",
    duration_ms: duration,
    elapsed_ms: duration - remaining,
    remaining_ms: remaining,
    ...fields,
  };
  return state({ operation, activation: "ready" });
}

export function ended(outcome: string, remaining = 0): SurfaceState {
  return running(remaining, { state: "ended", outcome });
}
