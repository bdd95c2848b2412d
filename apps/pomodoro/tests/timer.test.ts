// @vitest-environment jsdom
import type { LifecycleEvent, SurfaceState } from "@lineloop/app-sdk";
import { beforeEach, describe, expect, test } from "vitest";
import { Screen } from "../src/surface/screen.ts";
import { FAREWELL_MS, Timer, type Time } from "../src/surface/timer.ts";
import { ended, MINUTE, running, state } from "./projections.ts";

class World implements Time {
  readonly root = document.createElement("div");
  readonly deferred: number[] = [];
  refused = false;
  refreshed = 0;
  #now = 1_000;
  #due: { readonly at: number; readonly work: () => void } | null = null;
  #project: (state: SurfaceState) => void = () => undefined;
  #live: (event: LifecycleEvent) => void = () => undefined;
  readonly timer: Timer;

  constructor() {
    document.body.replaceChildren(this.root);
    const surface = {
      state: {
        snapshot: () => null,
        subscribe: (listener: (state: SurfaceState) => void) => {
          this.#project = listener;
          return () => undefined;
        },
        refresh: async () => void (this.refreshed += 1),
      },
      lifecycle: {
        subscribe: (listener: (event: LifecycleEvent) => void) => {
          this.#live = listener;
          return () => undefined;
        },
        snapshot: async () => undefined,
        deferClose: async (milliseconds: number) => {
          this.deferred.push(milliseconds);
          if (this.refused) throw new Error("no");
        },
      },
    };
    this.timer = new Timer(surface, new Screen(this.root), this);
    this.timer.start();
  }

  now(): number {
    return this.#now;
  }

  after(milliseconds: number, work: () => void): () => void {
    this.#due = { at: this.#now + milliseconds, work };
    return () => void (this.#due = null);
  }

  get ticking(): boolean {
    return this.#due !== null;
  }

  /** Time passes; what is due in it is done when it is due. */
  pass(milliseconds: number): void {
    const end = this.#now + milliseconds;
    for (let due = this.#due; due !== null && due.at <= end; due = this.#due) {
      this.#now = due.at;
      this.#due = null;
      due.work();
    }
    this.#now = end;
  }

  /** Time passes in a hidden tab: nothing is done. */
  sleep(milliseconds: number): void {
    this.#now += milliseconds;
  }

  project(projected: SurfaceState): void {
    this.#project(projected);
  }

  live(event: LifecycleEvent): void {
    this.#live(event);
  }

  text(name: string): string {
    const node = this.root.querySelector<HTMLElement>(`.${name}`);
    return node === null || node.hidden ? "" : (node.textContent ?? "");
  }

  get phase(): string | undefined {
    return this.root.querySelector<HTMLElement>("main")?.dataset["phase"];
  }
}

let world: World;
beforeEach(() => {
  world = new World();
});

describe("the timer", () => {
  test("without an operation says how to begin, and offers nothing to press", () => {
    world.project(state());
    expect([world.phase, world.text("label")]).toEqual(["empty", "No timer is running"]);
    expect(world.text("hint")).toContain("Focus on reading for 25 minutes");
    expect(world.root.querySelectorAll("button, input, a, [tabindex]")).toHaveLength(0);
    expect(world.ticking).toBe(false);
  });

  test("counts down by itself from each projection", () => {
    world.project(running(24 * MINUTE + 500));
    expect([world.text("label"), world.text("time")]).toEqual(["Reading", "24:01"]);
    world.pass(500);
    expect(world.text("time")).toBe("24:00");
    world.pass(MINUTE);
    expect(world.text("time")).toBe("23:00");
    world.project(running(10 * MINUTE));
    expect(world.text("time")).toBe("10:00");
    expect(document.title).toBe("10:00 · Reading");
  });

  test("stops at zero and waits for the Runtime to say how it ended", () => {
    world.project(running(1_500));
    world.pass(5_000);
    expect([world.text("time"), world.phase, world.ticking]).toEqual(["0:00", "running", false]);
    world.project(ended("completed"));
    expect([world.text("time"), world.text("caption")]).toEqual(["Done", "25 minutes of focus"]);
  });

  test("shows the right time when a hidden tab is seen again, and asks how things stand", async () => {
    world.project(running(20 * MINUTE));
    world.sleep(7 * MINUTE);
    expect(world.text("time")).toBe("20:00");
    await world.timer.seen();
    expect([world.text("time"), world.refreshed]).toEqual(["13:00", 1]);
    world.pass(1_000);
    expect(world.text("time")).toBe("12:59");
  });

  test("says when it was interrupted", () => {
    world.project(running(13 * MINUTE));
    world.project(ended("interrupted", 13 * MINUTE));
    expect([world.text("time"), world.text("caption"), world.ticking]).toEqual(["Stopped", "after 12 minutes", false]);
  });

  test("tells those who hear it the beginning, the last minute and the end, and no seconds", () => {
    const said: string[] = [];
    const hear = (): void => {
      const words = world.text("status");
      if (said.at(-1) !== words) said.push(words);
    };
    world.project(running(2 * MINUTE));
    hear();
    for (let second = 0; second < 120; second += 1) {
      world.pass(1_000);
      hear();
    }
    world.project(ended("completed"));
    hear();
    expect(said).toEqual(["The timer runs: 2 minutes, Reading.", "1 minute left.", "Done: 25 minutes of focus"]);
  });

  test("speaks Chinese when the person does", () => {
    world.project({ ...running(25 * MINUTE), language: "zh" });
    expect(world.root.querySelector("[role=timer]")?.getAttribute("aria-label")).toBe("剩余时间: 25:00");
    expect([world.text("hint"), document.documentElement.lang]).toEqual(["想提前结束，在聊天里说“停止”。", "zh"]);
    world.project({ ...ended("completed"), language: "zh" });
    expect([world.text("time"), world.text("caption")]).toEqual(["完成", "专注了 25 分钟"]);
  });

  test("writes the person's words as text, whatever they are", () => {
    const label = "<img src=x onerror=alert(1)>";
    world.project(running(MINUTE, { params: { minutes: 1, label } }));
    expect(world.text("label")).toBe(label);
    expect(world.root.querySelector("img")).toBeNull();
  });
});

describe("when the app closes", () => {
  const CLOSING: LifecycleEvent = { type: "closing", wait_ms: 250 };

  test("the outcome stays for a moment", () => {
    world.project(ended("completed"));
    world.live(CLOSING);
    expect(world.deferred).toEqual([FAREWELL_MS]);
  });

  test("also when the outcome comes after the news, and once only", () => {
    world.project(running(500));
    world.live(CLOSING);
    expect(world.deferred).toEqual([]);
    world.project(ended("completed"));
    world.project(ended("completed"));
    expect(world.deferred).toEqual([FAREWELL_MS]);
  });

  test("without an outcome it goes at once", () => {
    world.project(state());
    world.live({ type: "background" });
    world.live(CLOSING);
    expect(world.deferred).toEqual([]);
  });

  test("a Runtime that does not wait is obeyed", async () => {
    world.refused = true;
    world.project(ended("interrupted", MINUTE));
    world.live(CLOSING);
    await Promise.resolve();
    expect(world.text("time")).toBe("Stopped");
  });
});
