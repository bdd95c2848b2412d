// The Runtime's end of a session, played by hand, and time that passes when told.

import type { Port, Timers } from "../src/bridge/port.ts";

export interface Sent {
  readonly id?: string;
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

export const INIT = { app_scope: "probe", app_session_id: "ses_1", conversation_id: "con_1" };

export class Runtime {
  readonly sent: Sent[] = [];
  closed = false;
  #text: (text: string) => void = () => undefined;
  #reconnect: () => void = () => undefined;
  #close: () => void = () => undefined;

  readonly port: Port = {
    send: (text) => void this.sent.push(JSON.parse(text) as Sent),
    onText: (listener) => void (this.#text = listener),
    onReconnect: (listener) => void (this.#reconnect = listener),
    onClose: (listener) => void (this.#close = listener),
    close: () => void (this.closed = true),
  };

  /** Sends, and lets whoever waits for it go on. */
  async tell(type: string, payload: object = {}): Promise<void> {
    await this.text(JSON.stringify({ v: 1, type, payload }));
  }

  async text(text: string): Promise<void> {
    this.#text(text);
    await settle();
  }

  async reconnect(): Promise<void> {
    this.#reconnect();
    await settle();
  }

  async end(): Promise<void> {
    this.#close();
    await settle();
  }

  newest(type: string): Sent {
    const found = this.sent.findLast((frame) => frame.type === type);
    if (found === undefined) throw new Error(`no ${type} was sent`);
    return found;
  }

  async answer(type: string, ok: unknown): Promise<void> {
    await this.text(JSON.stringify({ v: 1, reply_to: this.newest(type).id, ok }));
  }

  async refuse(type: string, code: string, context: object = {}): Promise<void> {
    const error = { code, message: `refused: ${code}`, context };
    await this.text(JSON.stringify({ v: 1, reply_to: this.newest(type).id, error }));
  }

  async welcome(init: object = INIT): Promise<void> {
    await this.answer("hello", {});
    await this.tell("init", init);
  }
}

export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

export class FakeTime implements Timers {
  #now = 0;
  readonly #due = new Map<object, { readonly at: number; readonly work: () => void }>();

  get waiting(): number {
    return this.#due.size;
  }

  after(milliseconds: number, work: () => void): () => void {
    const key = {};
    this.#due.set(key, { at: this.#now + milliseconds, work });
    return () => void this.#due.delete(key);
  }

  async pass(milliseconds: number): Promise<void> {
    this.#now += milliseconds;
    for (const [key, { at, work }] of [...this.#due]) {
      if (at > this.#now || !this.#due.delete(key)) continue;
      work();
    }
    await settle();
  }
}
