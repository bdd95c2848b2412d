// Work that is done once per animation frame, however often it is asked for.

export type NextFrame = (run: () => void) => void;

/** The browser's frames. A hidden page has none: it catches up in one go when it is seen again. */
export const animationFrame: NextFrame = (run) => {
  requestAnimationFrame(run);
};

export class OncePerFrame {
  #asked = false;
  readonly #work: () => void;
  readonly #next: NextFrame;

  constructor(work: () => void, next: NextFrame) {
    this.#work = work;
    this.#next = next;
  }

  ask(): void {
    if (this.#asked) return;
    this.#asked = true;
    this.#next(() => {
      this.#asked = false;
      this.#work();
    });
  }
}
