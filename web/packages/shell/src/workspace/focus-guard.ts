// Keeps what a person types in the shell out of apps. A frame can take the focus whenever it likes; browsers that
// know `focus-without-user-activation` do not let it, in all others the shell takes the focus back and ends an app
// that goes on.
//
// How a person's own click is known: it makes the page active for a while (user activation reaches the frames
// around the one that was clicked), and nothing an app does can fake it. But typing in the shell makes the page
// active, too. Until that has worn off, a transparent shield lies over the apps while a person is busy in the
// shell: the press on it is the shell's own, and lets the app have the focus.

import { Store } from "../runtime/store.ts";

/** Longer than a browser counts one input as recent. */
export const ACTIVE_MS = 5_500;
/** An app that has just opened may put the focus into its first field, once; it does not get it. */
export const FRESH_MS = 5_000;

export interface GuardParts {
  readonly document: Document;
  readonly now: () => number;
  readonly after: (wait_ms: number, work: () => void) => () => void;
  /** Runs `work` as the very next thing, but not within what runs now. */
  readonly next: (work: () => void) => void;
  /** Whether an element is a frame of an app. */
  readonly isAppFrame: (element: Element | null) => boolean;
  /** How long ago the app in this frame was opened; null when it is not the one that is shown. */
  readonly ageOf: (frame: Element) => number | null;
  /** An app took the focus from a person who was busy in the shell. */
  readonly onThief: (frame: Element) => void;
}

export class FocusGuard {
  /** Whether the shield is up. */
  readonly shielded = new Store(false);
  readonly #parts: GuardParts;
  /** Where the person types or stands with the keyboard; null when the focus is nobody's business. */
  #busy: HTMLElement | null = null;
  #lastInput = -Infinity;
  #granted: Element | null = null;
  readonly #forgiven = new WeakSet<Element>();
  #stopTimer: () => void = () => undefined;

  constructor(parts: GuardParts) {
    this.#parts = parts;
  }

  start(): () => void {
    const { document } = this.#parts;
    const page = document.defaultView;
    const onInput = () => this.#input();
    const onFocus = (event: FocusEvent) => this.#focused(event.target);
    const onBlur = () => this.#check();
    document.addEventListener("keydown", onInput, true);
    document.addEventListener("pointerdown", onInput, true);
    document.addEventListener("focusin", onFocus, true);
    document.addEventListener("focusout", onBlur, true);
    page?.addEventListener("blur", onBlur, true);
    return () => {
      this.#stopTimer();
      document.removeEventListener("keydown", onInput, true);
      document.removeEventListener("pointerdown", onInput, true);
      document.removeEventListener("focusin", onFocus, true);
      document.removeEventListener("focusout", onBlur, true);
      page?.removeEventListener("blur", onBlur, true);
    };
  }

  /** The person wants the app to have the focus: a press on the shield, or the button of the app's bar. */
  grant(frame: HTMLElement): void {
    this.#busy = null;
    this.#granted = frame;
    this.#judge();
    frame.focus({ preventScroll: true });
  }

  #input(): void {
    this.#lastInput = this.#parts.now();
    this.#judge();
  }

  #focused(target: EventTarget | null): void {
    if (!(target instanceof HTMLElement) || this.#parts.isAppFrame(target)) return;
    this.#granted = null;
    this.#busy = isBusyWith(target) ? target : null;
    this.#judge();
  }

  // `focusout` comes before the frame has the focus, `blur` of the window with it.
  #check(): void {
    const frame = this.#parts.document.activeElement;
    if (frame === null || !this.#parts.isAppFrame(frame) || frame === this.#granted) return;
    const busy = this.#busy;
    if (busy === null || !busy.isConnected || this.#wasClicked()) {
      this.#granted = frame;
      this.#busy = null;
      this.#judge();
      return;
    }
    if ((this.#parts.ageOf(frame) ?? FRESH_MS) < FRESH_MS && !this.#forgiven.has(frame)) this.#forgiven.add(frame);
    else this.#parts.onThief(frame);
    // Not now: the browser is still moving the focus and would move on over whatever is done in between.
    this.#parts.next(() => this.#takeBack(busy));
  }

  #takeBack(busy: HTMLElement): void {
    const now = this.#parts.document.activeElement;
    if (now === busy || now === this.#granted || this.#busy !== busy || !busy.isConnected) return;
    if (this.#parts.isAppFrame(now)) (now as HTMLElement).blur();
    this.#parts.document.defaultView?.focus();
    busy.focus({ preventScroll: true });
  }

  /** Whether only a click inside a frame can have made the page active. */
  #wasClicked(): boolean {
    const activation = this.#parts.document.defaultView?.navigator.userActivation;
    return this.#parts.now() - this.#lastInput > ACTIVE_MS && activation?.isActive === true;
  }

  #judge(): void {
    this.#stopTimer();
    const left_ms = this.#lastInput + ACTIVE_MS - this.#parts.now();
    const busy = this.#busy !== null && this.#busy.isConnected;
    this.shielded.set(busy && left_ms > 0);
    if (busy && left_ms > 0) this.#stopTimer = this.#parts.after(left_ms, () => this.#judge());
  }
}

const UNTYPED = new Set(["button", "checkbox", "radio", "range", "color", "file", "image", "reset", "submit"]);

/** Fields that are typed in, and whatever the keyboard stands on; a button that was clicked is neither. */
function isBusyWith(element: HTMLElement): boolean {
  if (element === element.ownerDocument.body) return false;
  if (element instanceof HTMLInputElement) return !UNTYPED.has(element.type) || element.matches(":focus-visible");
  if (element instanceof HTMLTextAreaElement || element.isContentEditable) return true;
  return element.matches(":focus-visible");
}
