// What carries the frames of one app session, and the clock its requests are measured with.

/** One text is one frame. Texts arrive in the order in which they were sent. */
export interface Port {
  send(text: string): void;
  /** The listener of incoming texts; set once, before anything is sent. */
  onText(listener: (text: string) => void): void;
  /** Tells of every new connection behind the same port: what was asked before it is lost. */
  onReconnect?(listener: () => void): void;
  /** Tells that the port carries nothing any more. */
  onClose?(listener: () => void): void;
  close?(): void;
}

export interface Timers {
  after(milliseconds: number, work: () => void): () => void;
}

interface Clock {
  setTimeout(work: () => void, milliseconds: number): unknown;
  clearTimeout(handle: unknown): void;
}

export const REAL_TIMERS: Timers = {
  after: (milliseconds, work) => {
    const clock = globalThis as unknown as Clock;
    const handle = clock.setTimeout(work, milliseconds);
    return () => clock.clearTimeout(handle);
  },
};
