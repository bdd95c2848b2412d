// One launch of an app's surface: its sandboxed frame, the one handshake, its gate, and the rules that end it.
//
// `event.source` and the origin "null" are not who an app is: the nonce of the launch is, once. Anything a frame
// does twice, or says to the window after its handshake, ends it; a frame that ended stays ended.

import type { FromGate } from "./gate.ts";
import type { GateLink } from "./gate-link.ts";

export interface Launch {
  readonly launch: string;
  readonly nonce: string;
  readonly url: string;
}

/** Why a frame was ended; `surface.close` carries it. */
export type EndReason = "navigated" | "flood" | "protocol" | "unresponsive" | "crashed" | "unmounted";

export interface FrameParts {
  readonly launch: Launch;
  readonly title: string;
  readonly container: HTMLElement;
  readonly openGate: () => GateLink;
  readonly after: (wait_ms: number, work: () => void) => () => void;
  /** Frames of the bridge, in order, for the Runtime. */
  readonly onTexts: (texts: readonly string[]) => void;
  /** The handshake is done. */
  readonly onConnected: () => void;
  readonly onResponsive: (responsive: boolean) => void;
  /** It ended by one of the rules; the frame is gone already. */
  readonly onEnd: (reason: EndReason) => void;
}

const START_WAIT_MS = 20_000;
const GONE_WAIT_MS = 500;
const HANDSHAKE_FIELDS = 2;
/** Denies what only the embedding page can deny; named only where the browser knows it. */
const FOCUS_POLICY = "focus-without-user-activation";

export class SurfaceFrame {
  readonly element: HTMLIFrameElement;
  readonly launch: string;
  readonly #parts: FrameParts;
  readonly #stopStart: () => void;
  #gate: GateLink | null = null;
  #loads = 0;
  #ended = false;

  constructor(parts: FrameParts) {
    this.#parts = parts;
    this.launch = parts.launch.launch;
    const element = parts.container.ownerDocument.createElement("iframe");
    element.setAttribute("sandbox", "allow-scripts");
    element.setAttribute("referrerpolicy", "no-referrer");
    element.setAttribute("allow", knowsPolicy(parts.container.ownerDocument) ? `${FOCUS_POLICY} 'none'` : "");
    element.title = parts.title;
    // The keyboard gets in by the button of the app's bar, so that an app cannot pose as the next field.
    element.tabIndex = -1;
    element.addEventListener("load", () => this.#load());
    element.src = parts.launch.url;
    this.element = element;
    this.#stopStart = parts.after(START_WAIT_MS, () => {
      if (this.#gate === null) this.#breakOff("crashed");
    });
    parts.container.append(element);
  }

  get connected(): boolean {
    return this.#gate !== null && !this.#ended;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** A message of this frame's window to the shell's: the handshake, or its end. */
  message(data: unknown, origin: string): void {
    if (this.#ended) return;
    if (this.#gate !== null || origin !== "null" || !isHandshake(data, this.#parts.launch.nonce)) {
      this.#breakOff("protocol");
      return;
    }
    const { port1, port2 } = new MessageChannel();
    const gate = this.#parts.openGate();
    this.#gate = gate;
    this.#stopStart();
    gate.onMessage((message) => this.#hear(message));
    gate.post({ kind: "port" }, [port1]);
    this.element.contentWindow?.postMessage({ lineloop: 1, nonce: this.#parts.launch.nonce }, "*", [port2]);
    this.#parts.onConnected();
  }

  /** One frame of the bridge for the app. */
  send(text: string): void {
    this.#gate?.post({ kind: "send", text });
  }

  /** Whether the app is asked for signs of life. */
  watch(watching: boolean): void {
    this.#gate?.post({ kind: "watch", watching });
  }

  /** The policy of the page stopped a navigation of this frame, or it broke another rule of the page. */
  violate(reason: EndReason): void {
    this.#breakOff(reason);
  }

  /** Takes it off the page. Tells nobody. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#stopStart();
    this.#gate?.end();
    this.element.remove();
  }

  #load(): void {
    this.#loads += 1;
    if (this.#loads > 1) this.#breakOff("navigated");
  }

  #hear(message: FromGate): void {
    if (this.#ended) return;
    if (message.kind === "frames") this.#parts.onTexts(message.texts);
    else if (message.kind === "responsive") this.#parts.onResponsive(message.responsive);
    else if (message.kind === "broken") this.#breakOff(message.reason);
    // The app's process broke down; unless its document went away for another reason, which is told soon.
    else this.#parts.after(GONE_WAIT_MS, () => this.#breakOff("crashed"));
  }

  #breakOff(reason: EndReason): void {
    if (this.#ended) return;
    this.end();
    this.#parts.onEnd(reason);
  }
}

function knowsPolicy(page: Document): boolean {
  const { featurePolicy } = page as { featurePolicy?: { features?(): readonly string[] } };
  return featurePolicy?.features?.().includes(FOCUS_POLICY) ?? false;
}

function isHandshake(data: unknown, nonce: string): boolean {
  if (typeof data !== "object" || data === null) return false;
  const fields = data as Record<string, unknown>;
  return Object.keys(fields).length === HANDSHAKE_FIELDS && fields["lineloop"] === 1 && fields["nonce"] === nonce;
}
