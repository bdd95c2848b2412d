// When the buttons of a consent sheet begin to work: not at once, and only after a person showed that they are
// there. So neither a click that was already on its way nor a key that was being typed decides anything.

export const INERT_MS = 500;
/** A finger has no pointer that moves before it touches: it waits longer instead. */
export const INERT_TOUCH_MS = 1_000;
const MOVED_PX = 4;

export interface ArmingParts {
  readonly now: () => number;
  /** The device has no pointer that hovers. */
  readonly touch: boolean;
}

export class Arming {
  readonly #parts: ArmingParts;
  readonly #shownAt: number;
  #from: { readonly x: number; readonly y: number } | null = null;
  #present: boolean;

  constructor(parts: ArmingParts) {
    this.#parts = parts;
    this.#shownAt = parts.now();
    this.#present = parts.touch;
  }

  moved(x: number, y: number): void {
    this.#from ??= { x, y };
    if (Math.hypot(x - this.#from.x, y - this.#from.y) >= MOVED_PX) this.#present = true;
  }

  /** Tab goes to a button on purpose; any other key was typed for something else. */
  pressed(key: string): void {
    if (key === "Tab") this.#present = true;
  }

  /** Milliseconds until the time is up; 0 when it is. */
  left(): number {
    const inert = this.#parts.touch ? INERT_TOUCH_MS : INERT_MS;
    return Math.max(0, this.#shownAt + inert - this.#parts.now());
  }

  get armed(): boolean {
    return this.#present && this.left() === 0;
  }
}
