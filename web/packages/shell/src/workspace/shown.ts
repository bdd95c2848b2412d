// When this page may say that a person sees an app: `surface.shown`. The Runtime starts things on this word (a
// timer, for one), so it is given only for what is really on the screen.

import type { Instance, Workspace } from "./shapes.ts";
import { foregroundInstance } from "./shapes.ts";

export interface Shown {
  readonly instance_id: string;
  readonly activation_id: string;
  readonly generation: number;
}

export interface Sight {
  readonly workspace: Workspace;
  /** The page can be seen at all (`document.visibilityState`). */
  readonly visible: boolean;
  /** A consent sheet or another modal stands in front. */
  readonly covered: boolean;
  /** The conversation whose workspace the page shows. */
  readonly conversation_id: string | null;
  /** Whether the surface of this instance is connected and laid out inside the window. */
  readonly isOnScreen: (instance: Instance) => boolean;
}

/** What may be confirmed now; null when nothing may, or nothing is left to be. */
export function decideShown(sight: Sight): Shown | null {
  const instance = foregroundInstance(sight.workspace);
  if (instance === null || instance.confirmed || !sight.workspace.lease) return null;
  if (!sight.visible || sight.covered || sight.conversation_id !== instance.conversation_id) return null;
  if (!sight.isOnScreen(instance)) return null;
  const { instance_id, activation_id, generation } = instance;
  return activation_id === null ? null : { instance_id, activation_id, generation };
}

/** Whether an element takes up room inside the window and is drawn. */
export function isLaidOut(element: Element | null): boolean {
  if (element === null || !element.isConnected) return false;
  const page = element.ownerDocument.defaultView;
  const box = element.getBoundingClientRect();
  if (page === null || box.width < 1 || box.height < 1) return false;
  const inside = box.right > 0 && box.bottom > 0 && box.left < page.innerWidth && box.top < page.innerHeight;
  const style = page.getComputedStyle(element);
  return inside && style.visibility === "visible" && style.display !== "none";
}

export interface ConfirmerParts {
  /** What may be confirmed at this moment. */
  readonly look: () => Shown | null;
  readonly send: (shown: Shown) => void;
  /** Runs after the next frame was painted; never while the page is hidden. */
  readonly afterPaint: (work: () => void) => void;
}

/** Confirms what is seen after it has been painted, once for each activation and connection. */
export class Confirmer {
  readonly #parts: ConfirmerParts;
  #sent = "";
  #due = false;

  constructor(parts: ConfirmerParts) {
    this.#parts = parts;
  }

  /** Something changed. */
  check(): void {
    if (this.#due || this.#isDone(this.#parts.look())) return;
    this.#due = true;
    this.#parts.afterPaint(() => {
      this.#due = false;
      const shown = this.#parts.look();
      if (shown === null || this.#isDone(shown)) return;
      this.#sent = nameOf(shown);
      this.#parts.send(shown);
    });
  }

  /** A new connection has heard nothing yet. */
  restart(): void {
    this.#sent = "";
    this.check();
  }

  #isDone(shown: Shown | null): boolean {
    return shown === null || nameOf(shown) === this.#sent;
  }
}

function nameOf({ instance_id, activation_id, generation }: Shown): string {
  return JSON.stringify([instance_id, activation_id, generation]);
}
