// How a surface reaches its Runtime: one nonce handshake with the shell, then a MessagePort.
//
// The page says where the shell is and which nonce this launch has. The surface posts the nonce to its parent, once,
// and takes the port only from its parent, from the shell's origin, with the same nonce. Whatever else is posted to
// the window is not looked at.

import { REAL_TIMERS, type Port } from "./bridge/port.ts";
import { RuntimeError } from "./bridge/errors.ts";
import { Session, type SessionOptions } from "./bridge/session.ts";
import type { JsonObject } from "./json.ts";
import { surfaceOf, type Surface, type SurfaceState } from "./surface.ts";
import { VERSION } from "./version.ts";

/** The few things of a page that the handshake needs; a browser's window has them all. */
export interface Page {
  readonly parent: { postMessage(message: unknown, targetOrigin: string): void };
  readonly document: { readonly documentElement: { getAttribute(name: string): string | null } };
  addEventListener(type: "message", listener: (event: PageMessage) => void): void;
  removeEventListener(type: "message", listener: (event: PageMessage) => void): void;
}

export interface PageMessage {
  readonly source: unknown;
  readonly origin: string;
  readonly data: unknown;
  readonly ports: readonly PagePort[];
}

export interface PagePort {
  onmessage: ((event: { readonly data: unknown }) => void) | null;
  postMessage(message: string): void;
  close(): void;
}

export interface ConnectOptions extends SessionOptions {
  readonly features?: readonly string[];
}

const connected = new WeakMap<object, Promise<Surface<never, never>>>();

/**
 * Connects this surface. A document has one session: a second call gives the first one's.
 *
 * Throws RuntimeError: bridge_invalid when this page is no surface of a Runtime, deadline_exceeded when no shell
 * answers, sdk_incompatible and others as the Runtime says.
 */
export function connect<State = SurfaceState, Data extends JsonObject = JsonObject>(
  options: ConnectOptions = {},
  page: Page = globalThis as unknown as Page,
): Promise<Surface<State, Data>> {
  const known = connected.get(page) as Promise<Surface<State, Data>> | undefined;
  if (known !== undefined) return known;
  const begun = begin<State, Data>(options, page);
  connected.set(page, begun as unknown as Promise<Surface<never, never>>);
  return begun;
}

async function begin<State, Data extends JsonObject>(
  { features, ...options }: ConnectOptions,
  page: Page,
): Promise<Surface<State, Data>> {
  const root = page.document.documentElement;
  const nonce = root.getAttribute("data-lineloop-nonce");
  const shell = root.getAttribute("data-lineloop-shell");
  if (!nonce || !shell || (page.parent as unknown) === page) {
    throw new RuntimeError("bridge_invalid", "this page is not a surface that a Runtime has launched");
  }
  const session = new Session(await shakeHands(page, nonce, shell, options), options);
  try {
    const hello = { sdk: VERSION, nonce, ...(features === undefined ? {} : { features }) };
    const surface = surfaceOf<State, Data>(session);
    await session.start(hello);
    return surface;
  } catch (error) {
    session.close();
    throw error;
  }
}

function shakeHands(page: Page, nonce: string, shell: string, options: SessionOptions): Promise<Port> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      page.removeEventListener("message", listen);
      stop();
    };
    const listen = (event: PageMessage): void => {
      const [port] = event.ports;
      const { lineloop, nonce: answered } = Object(event.data) as { lineloop?: unknown; nonce?: unknown };
      if (event.source !== page.parent || event.origin !== shell) return;
      if (lineloop !== 1 || answered !== nonce || port === undefined || event.ports.length !== 1) return;
      done();
      resolve(portOver(port));
    };
    const stop = (options.timers ?? REAL_TIMERS).after(options.timeoutMs ?? 30_000, () => {
      done();
      reject(new RuntimeError("deadline_exceeded", "the shell did not answer"));
    });
    page.addEventListener("message", listen);
    page.parent.postMessage({ lineloop: 1, nonce }, shell);
  });
}

// The shell asks whether the surface still runs; what its session says stays apart from that.
const PING = /^\{"v":1,"type":"ping","payload":\{"number":(\d{1,15})\}\}$/;

/** Strings only; anything else on the port is not looked at. */
function portOver(port: PagePort): Port {
  return {
    send: (text) => port.postMessage(text),
    onText: (listener) => {
      // Setting it also starts the port.
      port.onmessage = ({ data }) => {
        if (typeof data !== "string") return;
        const ping = PING.exec(data);
        if (ping === null) listener(data);
        else port.postMessage(`{"v":1,"type":"pong","payload":{"number":${ping[1]}}}`);
      };
    },
    close: () => port.close(),
  };
}
