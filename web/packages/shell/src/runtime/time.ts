// Time and chance as the page has them; tests bring their own.

export interface Time {
  /** Epoch milliseconds. */
  now(): number;
  /** Runs `work` once after `wait_ms`; the answer takes it back. */
  after(wait_ms: number, work: () => void): () => void;
  /** 0 ≤ n < 1. */
  random(): number;
}

export const PAGE_TIME: Time = {
  now: () => Date.now(),
  after(wait_ms, work) {
    const timer = setTimeout(work, wait_ms);
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
};

/** A name nobody else makes: for requests, keys and tabs. */
export function freshId(prefix: string): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return prefix + "_" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
