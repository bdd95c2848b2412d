// @vitest-environment jsdom
import { act, cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Consent } from "../../src/workspace/consent.tsx";
import { readSheets } from "../../src/workspace/shapes.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  HTMLDialogElement.prototype.showModal = function (this: HTMLDialogElement) {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function (this: HTMLDialogElement) {
    this.open = false;
  };
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const SHEET = {
  call_ref: "call_1",
  conversation_id: "c1",
  agent: { kind: "operator", key: "assistant" },
  app_scope: "notes",
  app_title: "<img src=x onerror=alert(1)>",
  publisher: null,
  tool_title: "Delete \u202eseton",
  risk: "high",
  params: { name: "<b>all</b>", deep: { list: [1] } },
};

function open() {
  const sheet = readSheets({ sheets: [SHEET] })[0];
  if (sheet === undefined) throw new Error("the sheet was not read");
  const answered: [string, boolean][] = [];
  const onAnswer = vi.fn(async (call_ref: string, allowed: boolean) => void answered.push([call_ref, allowed]));
  const shown = render(<Consent sheet={sheet} more={1} conversation="Plan" onAnswer={onAnswer} />);
  return { answered, onAnswer, shown };
}
const allow = () => screen.getByRole("button", { name: "Allow once" });
const move = (x: number) => act(() => fireEvent.pointerMove(document.body, { clientX: x, clientY: 0 }));
const pass = (wait_ms: number) => act(() => vi.advanceTimersByTime(wait_ms));

test("nothing is chosen at first, and neither a click nor a key decides before the buttons work", async () => {
  const { answered } = open();
  expect(document.activeElement?.tagName).toBe("DIALOG");
  fireEvent.click(allow());
  pass(600);
  fireEvent.click(allow());
  fireEvent.keyDown(document.activeElement ?? document.body, { key: "Enter" });
  expect(answered).toEqual([]);
  expect(allow().getAttribute("aria-disabled")).toBe("true");
});

test("after the time and a move of the pointer a click decides, once", async () => {
  const { answered } = open();
  move(0);
  move(50);
  pass(600);
  expect(allow().getAttribute("aria-disabled")).toBe("false");
  fireEvent.click(allow());
  fireEvent.click(allow());
  await act(async () => undefined);
  expect(answered).toEqual([["call_1", true]]);
});

test("Escape decides nothing: it goes to the button that refuses", () => {
  const { answered } = open();
  const dialog = screen.getByRole("dialog");
  fireEvent.keyDown(dialog, { key: "Escape" });
  expect(document.activeElement).toBe(dialog);
  move(0);
  move(50);
  pass(600);
  fireEvent.keyDown(dialog, { key: "Escape" });
  expect(document.activeElement?.textContent).toBe("Don’t allow");
  expect(answered).toEqual([]);
});

test("an answer that did not arrive can be given again", async () => {
  const { onAnswer } = open();
  onAnswer.mockRejectedValueOnce(new Error("gone"));
  move(0);
  move(50);
  pass(600);
  fireEvent.click(allow());
  await act(async () => undefined);
  expect(screen.getByRole("alert").textContent).toContain("Try again");
  fireEvent.click(allow());
  await act(async () => undefined);
  expect(onAnswer).toHaveBeenCalledTimes(2);
});

test("texts of others are shown as texts, with nothing hidden in them", () => {
  const { shown } = open();
  expect(shown.baseElement.querySelector("img, b")).toBeNull();
  const text = shown.baseElement.textContent ?? "";
  expect(text).toContain("<img src=x onerror=alert(1)>");
  expect(text).toContain("Delete ⟨U+202E⟩seton");
  expect(text).toContain("<b>all</b>");
});

test.each([
  [{ kind: "operator", key: "assistant" }, "assistant"],
  ["operator/planner", "planner"],
  ["operator/research/writer", "operator/research/writer"],
  [{ kind: "harness", key: "run-9" }, "harness/run-9"],
])("who asks is named as people know them: %o is %s", (agent, name) => {
  expect(readSheets({ sheets: [{ ...SHEET, agent }] })[0]?.agent).toBe(name);
});

test("a tool whose title is in two languages is named in the person's", () => {
  const [sheet] = readSheets({ sheets: [{ ...SHEET, tool_title: "Delete the notes (删除笔记)" }] });
  if (sheet === undefined) throw new Error("the sheet was not read");
  render(<Consent sheet={sheet} more={0} conversation="Plan" onAnswer={async () => undefined} />);
  expect(screen.getByRole("heading", { name: "Allow “Delete the notes”?" })).toBeTruthy();
});
