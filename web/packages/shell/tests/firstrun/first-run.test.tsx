// @vitest-environment jsdom
// The first screen goes as soon as the demo is started, and comes back only to say that it did not start.

import { LoopError } from "@lineloop/ui-model";
import { act, cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useFirstScreen } from "../../src/firstrun/beginning.ts";
import { FirstRun } from "../../src/firstrun/first-run.tsx";
import type { ModelChoice } from "../../src/runtime/chat-core.ts";
import { Store } from "../../src/runtime/store.ts";
import type { Desk } from "../../src/workspace/desk.ts";

beforeEach(() => {
  localStorage.clear();
  HTMLDialogElement.prototype.showModal = function (this: HTMLDialogElement) {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function (this: HTMLDialogElement) {
    this.open = false;
  };
});
afterEach(cleanup);

function open() {
  let settle: { resolve: () => void; reject: (error: unknown) => void } | null = null;
  const model = new Store<ModelChoice | null>({ target: "demo", label: "Demo", chosen: false });
  const chooseModel = vi.fn(() => new Promise<void>((resolve, reject) => (settle = { resolve, reject })));
  const desk = { model, chooseModel, findModels: async () => [] } as unknown as Desk;
  function Page() {
    const first = useFirstScreen(desk);
    return (
      <>
        <form className="composer">
          <textarea />
        </form>
        {first.shown ? <FirstRun desk={desk} screen={first} /> : null}
      </>
    );
  }
  render(<Page />);
  return { chooseModel, settled: (how: "resolve" | "reject", error?: unknown) => act(async () => settle?.[how](error)) };
}
const start = () => fireEvent.click(screen.getByRole("button", { name: "Start the demo" }));

test("the demo's screen goes at once, one can write, and it does not come back", async () => {
  const { chooseModel, settled } = open();
  start();
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(document.activeElement?.tagName).toBe("TEXTAREA");
  expect(chooseModel.mock.calls).toEqual([["demo", null]]);
  await settled("resolve");
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("a demo that does not start brings the screen back, which says why", async () => {
  const { settled } = open();
  start();
  await settled("reject", new LoopError("connection_lost", "The Runtime is not there."));
  expect(screen.getByRole("dialog")).toBeTruthy();
  expect(screen.getByRole("alert").textContent).toContain("Lineloop is not running just now");
  start();
  expect(screen.queryByRole("dialog")).toBeNull();
});
