// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test } from "vitest";
import { ACTIVE_MS, FocusGuard, FRESH_MS } from "../../src/workspace/focus-guard.ts";
import { FakeTime } from "../world.ts";

let time: FakeTime;
let guard: FocusGuard;
let stop: () => void;
let field: HTMLTextAreaElement;
let frame: HTMLIFrameElement;
let next: (() => void)[];
let thieves: Element[];
let age: number | null;

beforeEach(() => {
  document.body.innerHTML = "<textarea></textarea><button>b</button><iframe></iframe>";
  [field, frame] = [document.querySelector("textarea")!, document.querySelector("iframe")!];
  [time, next, thieves, age] = [new FakeTime(), [], [], FRESH_MS];
  guard = new FocusGuard({
    document,
    now: () => time.now(),
    after: (wait_ms, work) => time.after(wait_ms, work),
    next: (work) => void next.push(work),
    isAppFrame: (element) => element === frame,
    ageOf: () => age,
    onThief: (thief) => thieves.push(thief),
  });
  stop = guard.start();
});
afterEach(() => {
  stop();
  activate(false);
});

/** What a browser does when the document in the frame takes the focus. */
function steal(): void {
  frame.tabIndex = 0;
  frame.focus();
  window.dispatchEvent(new FocusEvent("blur"));
  for (const work of next.splice(0)) work();
}
window.focus = () => undefined;

function activate(isActive: boolean): void {
  Object.defineProperty(navigator, "userActivation", { value: { isActive }, configurable: true });
}
function type(): void {
  field.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
}

test("the focus comes back to a person who types, and the app that took it is named", () => {
  field.focus();
  type();
  steal();
  expect(document.activeElement).toBe(field);
  expect(thieves).toEqual([frame]);
});

test("an app that has just opened may try once; it does not get the focus", () => {
  age = 0;
  field.focus();
  type();
  steal();
  expect([document.activeElement, thieves]).toEqual([field, []]);
  steal();
  expect([document.activeElement, thieves]).toEqual([field, [frame]]);
});

test("an app behind another has no such excuse", () => {
  age = null;
  field.focus();
  steal();
  expect(thieves).toEqual([frame]);
});

test("typing makes the page active, too: that does not count as a click in the app", () => {
  activate(true);
  field.focus();
  type();
  steal();
  expect(document.activeElement).toBe(field);
});

test("a click in the app counts when the person has rested in the shell", async () => {
  field.focus();
  type();
  await time.advance(ACTIVE_MS + 1);
  activate(true);
  steal();
  expect([document.activeElement, thieves]).toEqual([frame, []]);
});

test("a rest alone lets no app take the focus", async () => {
  activate(false);
  field.focus();
  type();
  await time.advance(60_000);
  steal();
  expect(document.activeElement).toBe(field);
});

test("the shield is up while a person is busy in the shell, and its press lets the app have the focus", async () => {
  expect(guard.shielded.get()).toBe(false);
  field.focus();
  type();
  expect(guard.shielded.get()).toBe(true);
  frame.tabIndex = 0;
  guard.grant(frame);
  window.dispatchEvent(new FocusEvent("blur"));
  expect(guard.shielded.get()).toBe(false);
  expect([document.activeElement, thieves]).toEqual([frame, []]);
  field.focus();
  type();
  expect(guard.shielded.get()).toBe(true);
  await time.advance(ACTIVE_MS);
  expect(guard.shielded.get()).toBe(false);
});

test("the grant ends when the person goes back to the shell", () => {
  frame.tabIndex = 0;
  guard.grant(frame);
  field.focus();
  type();
  steal();
  expect(document.activeElement).toBe(field);
});

test("nobody is busy: an app may have the focus", () => {
  steal();
  expect([document.activeElement, thieves]).toEqual([frame, []]);
});
