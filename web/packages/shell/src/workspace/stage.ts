// The frames of all instances: which are open, which one is shown, what became of each.
//
// A frame is opened when its instance comes to the foreground and stays alive behind others, up to a number; it is
// taken off when its instance is gone, while a consent sheet is open, and when the connection that opened it is.
// The elements are kept out of React, because an element that is moved loads again.

import type { JsonObject } from "@lineloop/ui-model";
import { Store } from "../runtime/store.ts";
import { SurfaceFrame, type EndReason, type Launch } from "./frame.ts";
import type { GateLink } from "./gate-link.ts";
import type { Instance } from "./shapes.ts";

export type FrameView =
  | { readonly phase: "opening" }
  | { readonly phase: "connected"; readonly responsive: boolean }
  | { readonly phase: "ended"; readonly reason: string };

export interface StageParts {
  readonly open: (instance_id: string) => Promise<JsonObject>;
  readonly close: (launch: string, reason: EndReason) => void;
  readonly sendText: (launch: string, text: string) => void;
  readonly openGate: () => GateLink;
  readonly after: (wait_ms: number, work: () => void) => () => void;
  /** Milliseconds of a clock. */
  readonly now: () => number;
}

/** What the page wants of the stage. */
export interface Wanted {
  /** All instances that exist, those that are closing too. */
  readonly instances: readonly Instance[];
  readonly foreground: Instance | null;
  /** false while a consent sheet is open or the Runtime is gone: no frame is opened. */
  readonly mayOpen: boolean;
  /** true while a consent sheet is open: no frame may be there at all. */
  readonly cleared: boolean;
  /** Whether a person can see the page. */
  readonly visible: boolean;
}

interface Place {
  frame: SurfaceFrame | null;
  openedAt: number;
  used: number;
}

const MAX_FRAMES = 6;
const VIOLATION_WAIT_MS = 500;

export class Stage {
  /** What became of each instance's frame; none: it has not been wanted. */
  readonly views = new Store<ReadonlyMap<string, FrameView>>(new Map());
  readonly #parts: StageParts;
  readonly #places = new Map<string, Place>();
  #container: HTMLElement | null = null;
  #wanted: Wanted = { instances: [], foreground: null, mayOpen: false, cleared: false, visible: false };
  #uses = 0;

  constructor(parts: StageParts) {
    this.#parts = parts;
  }

  /** Where the frames stand; listens to the window around it. The answer takes everything off. */
  mount(container: HTMLElement): () => void {
    this.#container = container;
    const page = container.ownerDocument.defaultView;
    const onMessage = (event: MessageEvent) => this.#message(event);
    const onViolation = (event: SecurityPolicyViolationEvent) => this.#violation(event);
    page?.addEventListener("message", onMessage);
    container.ownerDocument.addEventListener("securitypolicyviolation", onViolation);
    this.#settle();
    return () => {
      page?.removeEventListener("message", onMessage);
      container.ownerDocument.removeEventListener("securitypolicyviolation", onViolation);
      this.#container = null;
      for (const instance_id of this.#places.keys()) this.#takeOff(instance_id, "unmounted");
    };
  }

  want(wanted: Wanted): void {
    this.#wanted = wanted;
    this.#settle();
  }

  /** The connection is a new one: launches of the old one mean nothing to it. */
  restart(): void {
    for (const [instance_id, place] of this.#places) {
      place.frame?.end();
      this.#forget(instance_id);
    }
    this.#settle();
  }

  /** The person wants an ended app back. */
  reopen(instance_id: string): void {
    this.#takeOff(instance_id, "unmounted");
    this.#settle();
  }

  /** The person gives up waiting for an app that does not answer, or it broke a rule of the page. */
  stop(instance_id: string, reason: EndReason): void {
    this.#places.get(instance_id)?.frame?.violate(reason);
  }

  text(launch: string, text: string): void {
    for (const place of this.#places.values()) {
      if (place.frame?.launch === launch) place.frame.send(text);
    }
  }

  /** The Runtime ended a launch. */
  gone(launch: string, reason: string): void {
    for (const [instance_id, place] of this.#places) {
      if (place.frame?.launch !== launch) continue;
      place.frame.end();
      this.#view(instance_id, { phase: "ended", reason });
    }
  }

  /** The frame of an instance when it is connected and stands on the page. */
  shownFrame(instance_id: string): HTMLIFrameElement | null {
    const frame = this.#places.get(instance_id)?.frame ?? null;
    return frame !== null && frame.connected ? frame.element : null;
  }

  /** The instance whose frame this element is. */
  instanceOf(element: Element | null): string | null {
    for (const [instance_id, place] of this.#places) {
      if (element !== null && place.frame?.element === element) return instance_id;
    }
    return null;
  }

  /** How long ago the app in this frame was opened, in milliseconds; null unless it is the one that is shown. */
  ageOf(element: Element): number | null {
    const instance_id = this.instanceOf(element);
    const place = instance_id === this.#wanted.foreground?.instance_id ? this.#places.get(instance_id ?? "") : undefined;
    return place === undefined ? null : this.#parts.now() - place.openedAt;
  }

  #settle(): void {
    const { instances, foreground, cleared, mayOpen } = this.#wanted;
    const known = new Set(instances.map((instance) => instance.instance_id));
    for (const instance_id of [...this.#places.keys()]) {
      if (!known.has(instance_id)) this.#takeOff(instance_id, "unmounted");
      else if (cleared && this.views.get().get(instance_id)?.phase !== "ended") this.#takeOff(instance_id, "unmounted");
    }
    if (foreground !== null && foreground.surface && mayOpen && !cleared) this.#ensure(foreground);
    this.#arrange();
    this.#thin();
  }

  #ensure(instance: Instance): void {
    if (this.#container === null || this.#places.has(instance.instance_id)) return;
    const place: Place = { frame: null, openedAt: this.#parts.now(), used: 0 };
    this.#places.set(instance.instance_id, place);
    this.#view(instance.instance_id, { phase: "opening" });
    void this.#open(instance, place);
  }

  async #open(instance: Instance, place: Place): Promise<void> {
    const { instance_id } = instance;
    const current = () => this.#places.get(instance_id) === place && this.#container !== null;
    let launch: Launch | null;
    try {
      launch = readLaunch(await this.#parts.open(instance_id));
    } catch {
      launch = null;
    }
    if (!current() || this.#container === null) {
      if (launch !== null) this.#parts.close(launch.launch, "unmounted");
      return;
    }
    if (launch === null) {
      this.#view(instance_id, { phase: "ended", reason: "not_opened" });
      return;
    }
    const opened = launch.launch;
    place.openedAt = this.#parts.now();
    place.frame = new SurfaceFrame({
      launch,
      title: instance.title,
      container: this.#container,
      openGate: this.#parts.openGate,
      after: this.#parts.after,
      onTexts: (texts) => {
        for (const text of texts) this.#parts.sendText(opened, text);
      },
      onConnected: () => {
        this.#view(instance_id, { phase: "connected", responsive: true });
        this.#arrange();
      },
      onResponsive: (responsive) => this.#view(instance_id, { phase: "connected", responsive }),
      onEnd: (reason) => {
        this.#parts.close(opened, reason);
        this.#view(instance_id, { phase: "ended", reason });
      },
    });
    this.#arrange();
    this.#thin();
  }

  #arrange(): void {
    const shown = this.#wanted.foreground?.instance_id ?? null;
    for (const [instance_id, place] of this.#places) {
      if (place.frame === null || place.frame.ended) continue;
      const isShown = instance_id === shown;
      if (isShown) place.used = this.#uses += 1;
      place.frame.element.hidden = !isShown;
      place.frame.watch(isShown && this.#wanted.visible);
    }
  }

  // Of the frames behind, the longest unseen go first.
  #thin(): void {
    const open = [...this.#places].filter(([, place]) => place.frame !== null && !place.frame.ended);
    open.sort(([, one], [, other]) => other.used - one.used);
    for (const [instance_id] of open.slice(MAX_FRAMES)) this.#takeOff(instance_id, "unmounted");
  }

  #message(event: MessageEvent): void {
    for (const place of this.#places.values()) {
      const frame = place.frame;
      if (frame === null || frame.ended || event.source === null) continue;
      if (frame.element.contentWindow === event.source) {
        frame.message(event.data, event.origin);
        return;
      }
    }
  }

  // The report does not say whose frame it was. The frame loads an empty page instead and so ends itself; when
  // none does, all go, because one of them tried.
  #violation(event: SecurityPolicyViolationEvent): void {
    if (event.effectiveDirective !== "frame-src" && event.effectiveDirective !== "child-src") return;
    const open = [...this.#places.values()].flatMap(({ frame }) => (frame === null || frame.ended ? [] : [frame]));
    this.#parts.after(VIOLATION_WAIT_MS, () => {
      if (open.every((frame) => !frame.ended)) for (const frame of open) frame.violate("navigated");
    });
    const only = open.length === 1 ? open[0] : undefined;
    only?.violate("navigated");
  }

  #takeOff(instance_id: string, reason: EndReason): void {
    const frame = this.#places.get(instance_id)?.frame ?? null;
    if (frame !== null && !frame.ended) {
      frame.end();
      this.#parts.close(frame.launch, reason);
    }
    this.#forget(instance_id);
  }

  #forget(instance_id: string): void {
    this.#places.delete(instance_id);
    const views = new Map(this.views.get());
    if (views.delete(instance_id)) this.views.set(views);
  }

  #view(instance_id: string, view: FrameView): void {
    this.views.set(new Map(this.views.get()).set(instance_id, view));
  }
}

function readLaunch(answer: JsonObject): Launch | null {
  const { launch, nonce, url } = answer;
  const whole = typeof launch === "string" && typeof nonce === "string" && typeof url === "string";
  return whole ? { launch, nonce, url } : null;
}
