// What stands between an app's port and the shell, inside the worker: counts, measures, and passes on in batches.
//
// Decides when an app has gone too far (flood, protocol) and when it does not answer. Knows nothing of frames'
// meaning; ping and pong belong to the port and are never passed on.

import { BURST, isWithinLimits, RATE_PER_SECOND, TokenBucket } from "./limits.ts";

export const PING_EVERY_MS = 1_000;
export const UNRESPONSIVE_AFTER_MS = 3_000;
/** A process that broke down looks like one that is busy for ever: no browser tells the page which it is. */
export const DEAD_AFTER_MS = 20_000;
const MAX_BATCH = 64;

/** What the worker says to the shell. */
export type FromGate =
  | { readonly kind: "frames"; readonly texts: readonly string[] }
  | { readonly kind: "broken"; readonly reason: "flood" | "protocol" }
  /** Nobody is at the other end any more. */
  | { readonly kind: "closed" }
  | { readonly kind: "responsive"; readonly responsive: boolean };

/** What the shell says to the worker; the first is `port`, with the port. */
export type ToGate =
  | { readonly kind: "port" }
  | { readonly kind: "send"; readonly text: string }
  | { readonly kind: "watch"; readonly watching: boolean };

export interface GateParts {
  readonly now: () => number;
  /** To the app. */
  readonly post: (text: string) => void;
  /** To the shell. */
  readonly tell: (message: FromGate) => void;
}

const PONG = /^\{"v":1,"type":"pong","payload":\{"number":(\d{1,15})\}\}$/;

export class Gate {
  readonly #parts: GateParts;
  readonly #bucket: TokenBucket;
  #batch: string[] = [];
  #broken = false;
  #watching = false;
  #number = 0;
  #answered = 0;
  #answeredAt = 0;
  #responsive = true;

  constructor(parts: GateParts) {
    this.#parts = parts;
    this.#bucket = new TokenBucket(RATE_PER_SECOND, BURST, parts.now());
  }

  /** One message of the app, of whatever kind. Answers whether the port may stay open. */
  receive(data: unknown): boolean {
    if (this.#broken) return false;
    if (!this.#bucket.take(this.#parts.now())) return this.#break("flood");
    if (typeof data !== "string" || !isWithinLimits(data)) return this.#break("protocol");
    if (!this.#pong(data)) {
      this.#batch.push(data);
      if (this.#batch.length >= MAX_BATCH) this.flush();
    }
    return true;
  }

  flush(): void {
    if (this.#batch.length === 0 || this.#broken) return;
    this.#parts.tell({ kind: "frames", texts: this.#batch });
    this.#batch = [];
  }

  send(text: string): void {
    if (!this.#broken) this.#parts.post(text);
  }

  /** Whether anybody looks: an app that nobody sees is not asked, and owes no answer. */
  watch(watching: boolean): void {
    this.#watching = watching;
    this.#answered = this.#number;
    this.#answeredAt = this.#parts.now();
    this.#judge(true);
  }

  /** Every PING_EVERY_MS. */
  tick(): void {
    if (!this.#watching || this.#broken) return;
    const now = this.#parts.now();
    if (this.#answered === this.#number) {
      this.#answeredAt = now;
      this.#number += 1;
      this.send(`{"v":1,"type":"ping","payload":{"number":${this.#number}}}`);
      return;
    }
    const silent_ms = now - this.#answeredAt;
    this.#judge(silent_ms < UNRESPONSIVE_AFTER_MS);
    if (silent_ms < DEAD_AFTER_MS) return;
    this.#broken = true;
    this.#parts.tell({ kind: "closed" });
  }

  #pong(text: string): boolean {
    const pong = PONG.exec(text);
    if (pong === null) return false;
    if (Number(pong[1]) === this.#number) {
      this.#answered = this.#number;
      this.#judge(true);
    }
    return true;
  }

  #judge(responsive: boolean): void {
    if (responsive === this.#responsive) return;
    this.#responsive = responsive;
    this.#parts.tell({ kind: "responsive", responsive });
  }

  #break(reason: "flood" | "protocol"): false {
    this.flush();
    this.#broken = true;
    this.#batch = [];
    this.#parts.tell({ kind: "broken", reason });
    return false;
  }
}
