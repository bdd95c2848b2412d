// @vitest-environment jsdom
// What the page says while the Runtime is gone.

import { act, cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LinkPhase } from "../../src/runtime/chat-core.ts";
import { Store } from "../../src/runtime/store.ts";
import type { Desk } from "../../src/workspace/desk.ts";
import { GoneStrip } from "../../src/workspace/status.tsx";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

test("once it has been gone for ten seconds the page says how to find it at another address", () => {
  const link = new Store<LinkPhase>("gone");
  const desk = { client: { link, nextTry: new Store<number | null>(null), tryNow: () => undefined } } as unknown as Desk;
  render(<GoneStrip desk={desk} />);
  const strip = () => screen.getByRole("region").textContent;
  act(() => vi.advanceTimersByTime(9_000));
  expect(strip()).not.toContain("lineloop open");
  act(() => vi.advanceTimersByTime(1_500));
  expect(strip()).toContain("If it was started again with another address, run lineloop open");
  act(() => link.set("online"));
  act(() => link.set("gone"));
  expect(strip()).not.toContain("lineloop open");
});
