// The timer at work: takes projections, counts down between them, and asks for a moment to show how it ended.

import type { Language, LifecycleEvent, Surface, SurfaceState } from "@lineloop/app-sdk";
import { msToNextText, viewOf, type View } from "./model.ts";
import type { Screen } from "./screen.ts";
import { textsOf } from "./texts.ts";

/** How long the outcome stays on the screen before the app goes. */
export const FAREWELL_MS = 2_000;
const LAST_MINUTE_MS = 60_000;

export interface Time {
  /** Milliseconds of a clock that only goes forward. */
  now(): number;
  after(milliseconds: number, work: () => void): () => void;
}

export class Timer {
  readonly #surface: Pick<Surface, "state" | "lifecycle">;
  readonly #screen: Screen;
  readonly #time: Time;
  #state: SurfaceState | null = null;
  #projectedAt = 0;
  #stopTick: () => void = () => undefined;
  #previous: View | null = null;
  #closing = false;
  #stays = false;

  constructor(surface: Pick<Surface, "state" | "lifecycle">, screen: Screen, time: Time) {
    this.#surface = surface;
    this.#screen = screen;
    this.#time = time;
  }

  start(): void {
    this.#surface.state.subscribe((state) => this.#project(state));
    this.#surface.lifecycle.subscribe((event) => this.#lives(event));
  }

  /** The page can be seen again: what its timers missed is made good, and the Runtime is asked how things stand. */
  async seen(): Promise<void> {
    this.#draw();
    await this.#surface.state.refresh();
  }

  #project(state: SurfaceState): void {
    this.#state = state;
    this.#projectedAt = this.#time.now();
    this.#draw();
    void this.#farewell();
  }

  #lives(event: LifecycleEvent): void {
    if (event.type !== "closing") return;
    this.#closing = true;
    void this.#farewell();
  }

  /** The outcome may come before or after the news that the app closes. */
  async #farewell(): Promise<void> {
    const outcome = this.#state?.operation?.outcome ?? null;
    if (!this.#closing || outcome === null || this.#stays) return;
    this.#stays = true;
    try {
      await this.#surface.lifecycle.deferClose(FAREWELL_MS);
    } catch {
      // The Runtime has the last word.
    }
  }

  #draw(): void {
    this.#stopTick();
    const view = viewOf(this.#state, this.#time.now() - this.#projectedAt);
    const language = this.#state?.language ?? "en";
    this.#screen.show(view, language);
    this.#announce(view, language);
    this.#previous = view;
    if (view.phase === "running" && view.remainingMs > 0) {
      this.#stopTick = this.#time.after(msToNextText(view.remainingMs), () => this.#draw());
    }
  }

  /** Beginning, last minute and end are said; seconds are not. */
  #announce(view: View, language: Language): void {
    const texts = textsOf(language);
    const before = this.#previous;
    if (view.phase === "running") {
      if (before?.phase !== "running") {
        this.#screen.announce(texts.started(texts.length(view.remainingMs), view.label));
      } else if (before.remainingMs > LAST_MINUTE_MS && view.remainingMs <= LAST_MINUTE_MS) {
        this.#screen.announce(texts.left(texts.length(LAST_MINUTE_MS)));
      }
    } else if (view.phase === "completed") {
      this.#screen.announce(`${texts.completed}: ${texts.completedAfter(texts.length(view.durationMs))}`);
    } else if (view.phase === "interrupted") {
      this.#screen.announce(`${texts.interrupted}, ${texts.interruptedAfter(texts.length(view.elapsedMs))}`);
    } else if (view.phase === "ended") {
      this.#screen.announce(texts.ended);
    }
  }
}
