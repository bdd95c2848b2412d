// What one app may send through its port: how often, how much, how deep. All of it is known before anything is
// parsed, so that no text can cost more than its length.

export const RATE_PER_SECOND = 50;
export const BURST = 200;
export const MAX_BYTES = 256 * 1024;
export const MAX_DATA_BYTES = 1_310_720;
export const MAX_DEPTH = 32;
export const MAX_DATA_DEPTH = 64;

/** Frames that carry session data may be larger and deeper. The head of a frame comes first. */
const DATA_FRAME = /^\{"v":1,"id":"[^"\\]{1,256}","type":"session\.replace",/;
// Depth is that of the payload (or of the data in it); the frame itself is around it.
const AROUND_PAYLOAD = 1;
const AROUND_DATA = 2;

/** Allows `burst` at once and `rate` a second for good. */
export class TokenBucket {
  readonly #rate: number;
  readonly #burst: number;
  #tokens: number;
  #at: number;

  constructor(rate: number, burst: number, now: number) {
    this.#rate = rate;
    this.#burst = burst;
    this.#tokens = burst;
    this.#at = now;
  }

  /** Takes one, when there is one. `now` in milliseconds; a clock that jumps back gives nothing. */
  take(now: number): boolean {
    const passed = Math.max(0, now - this.#at);
    this.#at = Math.max(now, this.#at);
    this.#tokens = Math.min(this.#burst, this.#tokens + (passed * this.#rate) / 1000);
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** Whether the text has more than `limit` bytes in UTF-8. Stops counting as soon as that is sure. */
export function isLongerThan(text: string, limit: number): boolean {
  if (text.length > limit) return true;
  if (text.length * 3 <= limit) return false;
  let bytes = 0;
  for (let index = 0; index < text.length && bytes <= limit; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    else if (unit >= 0xd800 && unit < 0xdc00) {
      bytes += 4;
      index += 1;
    } else bytes += 3;
  }
  return bytes > limit;
}

/** Whether the JSON text nests more than `limit` levels; brackets inside strings do not count. */
export function nestsDeeperThan(text: string, limit: number): boolean {
  let depth = 0;
  let inString = false;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (inString) {
      if (unit === 0x5c) index += 1;
      else if (unit === 0x22) inString = false;
    } else if (unit === 0x22) inString = true;
    else if (unit === 0x7b || unit === 0x5b) {
      depth += 1;
      if (depth > limit) return true;
    } else if (unit === 0x7d || unit === 0x5d) depth -= 1;
  }
  return false;
}

/** Whether a frame may go on to the Runtime, by its size and depth alone. */
export function isWithinLimits(text: string): boolean {
  const data = DATA_FRAME.test(text.slice(0, 320));
  const bytes = data ? MAX_DATA_BYTES : MAX_BYTES;
  const depth = data ? MAX_DATA_DEPTH + AROUND_DATA : MAX_DEPTH + AROUND_PAYLOAD;
  return !isLongerThan(text, bytes) && !nestsDeeperThan(text, depth);
}
