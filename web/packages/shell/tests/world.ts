// A page without a browser: time that stands still until told, a Runtime on the other end of every socket.

import type { JsonObject } from "@lineloop/ui-model";
import type { Access } from "../src/runtime/access.ts";
import { RuntimeClient, type Socket } from "../src/runtime/client.ts";
import type { Prover } from "../src/runtime/handshake.ts";
import type { Time } from "../src/runtime/time.ts";

export class FakeTime implements Time {
  #now = 1_700_000_000_000;
  #timers: { at: number; work: () => void }[] = [];

  now(): number {
    return this.#now;
  }

  after(wait_ms: number, work: () => void): () => void {
    const timer = { at: this.#now + wait_ms, work };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  random(): number {
    return 0.5;
  }

  async advance(wait_ms: number): Promise<void> {
    const end = this.#now + wait_ms;
    for (;;) {
      await settle();
      const due = this.#timers.filter((timer) => timer.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.#timers = this.#timers.filter((timer) => timer !== due);
      this.#now = Math.max(this.#now, due.at);
      due.work();
    }
    this.#now = end;
    await settle();
  }

  /** The machine slept: time passed, no timer ran on time. */
  sleep(wait_ms: number): void {
    this.#now += wait_ms;
  }
}

export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

export class FakeAccess implements Access {
  code: string | null = null;
  stored: string | null = null;
  #listeners: (() => void)[] = [];

  takeCode(): string | null {
    const code = this.code;
    this.code = null;
    return code;
  }
  key(): string | null {
    return this.stored;
  }
  keep(key: string): void {
    this.stored = key;
  }
  forget(): void {
    this.stored = null;
  }
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }
  changed(): void {
    for (const listener of this.#listeners) listener();
  }
}

interface Sent {
  readonly v: number;
  readonly id?: string;
  readonly type: string;
  readonly payload: Record<string, unknown>;
}

export class FakeSocket implements Socket {
  onopen: (() => void) | null = null;
  onmessage: ((message: { readonly data: unknown }) => void) | null = null;
  onclose: ((end: { readonly code: number }) => void) | null = null;
  closed = false;
  readonly sent: Sent[] = [];
  onSend: (frame: Sent) => void = () => undefined;

  send(text: string): void {
    const frame = JSON.parse(text) as Sent;
    this.sent.push(frame);
    this.onSend(frame);
  }
  close(): void {
    this.closed = true;
  }
  say(frame: unknown): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
  event(type: string, payload: JsonObject): void {
    this.say({ v: 1, type, payload });
  }
  answer(id: string | undefined, ok: unknown): void {
    this.say({ v: 1, reply_to: id, ok });
  }
  refuse(id: string | undefined, code: string): void {
    this.say({ v: 1, reply_to: id, error: { code, message: code } });
  }
  types(): string[] {
    return this.sent.map((frame) => frame.type);
  }
}

/** Proofs that read well. What is really computed is bound by golden/shell/handshake.json. */
const proveAtOnce: Prover = (secret) =>
  Promise.resolve({
    hello: { name: `name of ${secret}`, nonce: "page" },
    answer: (challenge) => Promise.resolve(challenge["proof"] === `device knows ${secret}` ? `page knows ${secret}` : null),
    key: () => Promise.resolve(`key for ${secret}`),
  });

export class World {
  readonly time = new FakeTime();
  readonly access = new FakeAccess();
  readonly sockets: FakeSocket[] = [];
  readonly client: RuntimeClient;
  readonly outdated: (string | null)[] = [];

  constructor() {
    this.client = new RuntimeClient({
      connect: () => {
        const socket = new FakeSocket();
        this.sockets.push(socket);
        return socket;
      },
      access: this.access,
      prove: proveAtOnce,
      time: this.time,
      outdated: (code) => this.outdated.push(code),
      greeting: () => ({ tab: "tab_1", visible: true, focused: true, language: "en" }),
    });
  }

  get socket(): FakeSocket {
    const last = this.sockets.at(-1);
    if (last === undefined) throw new Error("no connection was tried");
    return last;
  }

  /** The Runtime takes the newest connection in. */
  async welcome(more: JsonObject = {}): Promise<FakeSocket> {
    const socket = this.socket;
    socket.onopen?.();
    await settle();
    const hello = socket.sent.find((frame) => frame.type === "hello");
    const secret = String(hello?.payload["name"]).replace("name of ", "");
    socket.answer(hello?.id, { nonce: "device", proof: `device knows ${secret}` });
    await settle();
    const prove = socket.sent.find((frame) => frame.type === "prove");
    socket.answer(prove?.id, { host_session_id: "hs_1", content_origin: "http://c", heartbeat_ms: 15_000, ...more });
    await settle();
    return socket;
  }
}

/** A storage that behaves like localStorage; `full` makes it refuse. */
export class FakeStorage implements Storage {
  readonly items = new Map<string, string>();
  full = false;

  get length(): number {
    return this.items.size;
  }
  key(index: number): string | null {
    return [...this.items.keys()][index] ?? null;
  }
  getItem(name: string): string | null {
    return this.items.get(name) ?? null;
  }
  setItem(name: string, value: string): void {
    if (this.full) throw new Error("QuotaExceededError");
    this.items.set(name, value);
  }
  removeItem(name: string): void {
    this.items.delete(name);
  }
  clear(): void {
    this.items.clear();
  }
}
