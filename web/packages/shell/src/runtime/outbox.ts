// What a person said and the Runtime has not taken yet: kept in the browser, sent in order, taken once.
//
// Every entry is its own record of the storage, so that two tabs never overwrite each other; both may send the
// same one, because the Runtime takes a key only once. What finds no room in the storage is not accepted, so that
// nothing is promised which a reload would lose. What can never be sent is refused here and holds nothing back.

import { LoopError, isObject, type JsonObject } from "@lineloop/ui-model";
import { FIRST_THERE, isPlace, isTooLong, type ActorName, type Place, type Saying, type Target, type Waiting } from "./chat-core.ts";
import { Store } from "./store.ts";
import { freshId, type Time } from "./time.ts";
import { tooLarge } from "./wire.ts";

const PREFIX = "lineloop.outbox.";
const AGAIN_MS = 1_000;
const LONGEST_AGAIN_MS = 30_000;

export interface OutboxParts {
  readonly storage: Storage;
  readonly time: Time;
  /** Resolves when the Runtime has committed it; rejects with LoopError. */
  readonly deliver: (entry: Waiting) => Promise<unknown>;
  /** Resolves with the conversation of a place, the same one however often it is asked; rejects with LoopError. */
  readonly make: (place: Place) => Promise<string>;
}

interface Kept extends Waiting {
  /** Orders what was said in the same millisecond. */
  readonly number: number;
}

export class Outbox {
  readonly entries = new Store<readonly Waiting[]>([]);
  readonly made = new Store<ReadonlyMap<Place, string>>(new Map());
  readonly #parts: OutboxParts;
  readonly #kept = new Map<string, Kept>();
  readonly #sending = new Set<string>();
  readonly #unstored = new Set<string>();
  #number = 0;
  #open = false;
  #failures = 0;
  #stopTimer: () => void = () => undefined;

  constructor(parts: OutboxParts) {
    this.#parts = parts;
    this.reload();
  }

  /** Throws LoopError, and keeps nothing, for what is too long or has no room. */
  say(saying: Saying): string {
    if (isTooLong(saying.text)) throw tooLarge();
    const key = freshId("say");
    this.#number += 1;
    const entry: Kept = {
      key,
      conversation_id: saying.conversation_id,
      text: saying.text,
      target: saying.target ?? null,
      reply_to_id: saying.reply_to_id ?? null,
      created_at: new Date(this.#parts.time.now()).toISOString(),
      state: "waiting",
      code: null,
      number: this.#number,
    };
    if (!this.#store(entry)) throw new LoopError("storage_unavailable", "The browser has no room for it.");
    this.#kept.set(key, entry);
    this.#publish();
    this.#flush();
    return key;
  }

  again(key: string): void {
    const entry = this.#kept.get(key);
    if (entry?.state === "refused") this.#keep(judged({ ...entry, state: "waiting", code: null }));
    this.#flush();
  }

  discard(key: string): void {
    this.#kept.delete(key);
    this.#unstored.delete(key);
    this.#withStorage((storage) => storage.removeItem(PREFIX + key));
    this.#publish();
  }

  /** The Runtime is there (or not): entries go out, or stay. */
  open(there: boolean): void {
    this.#open = there;
    this.#failures = 0;
    this.#stopTimer();
    if (there) this.#flush();
  }

  /** Reads the storage again: another tab wrote or took something. */
  reload(): void {
    this.#withStorage((storage) => {
      const found = new Set<string>();
      for (let index = 0; index < storage.length; index += 1) {
        const name = storage.key(index);
        if (name === null || !name.startsWith(PREFIX)) continue;
        const entry = parse(storage.getItem(name));
        if (entry !== null && PREFIX + entry.key === name) {
          found.add(entry.key);
          // What the page knows better than a full storage stays as the page knows it.
          if (!this.#unstored.has(entry.key)) this.#kept.set(entry.key, judged(entry));
        }
      }
      for (const key of [...this.#kept.keys()]) {
        if (!found.has(key) && !this.#sending.has(key) && !this.#unstored.has(key)) this.#kept.delete(key);
      }
    });
    this.#publish();
    this.#flush();
  }

  #keep(entry: Kept): void {
    this.#kept.set(entry.key, entry);
    if (this.#store(entry)) this.#unstored.delete(entry.key);
    else this.#unstored.add(entry.key);
    this.#publish();
  }

  #store(entry: Kept): boolean {
    return this.#withStorage((storage) => storage.setItem(PREFIX + entry.key, JSON.stringify(entry)));
  }

  /** Whether it could be done; a storage may be full or forbidden. */
  #withStorage(work: (storage: Storage) => void): boolean {
    try {
      work(this.#parts.storage);
      return true;
    } catch {
      return false;
    }
  }

  #publish(): void {
    const order = (one: Kept, other: Kept) =>
      one.created_at < other.created_at ? -1 : one.created_at > other.created_at ? 1 : one.number - other.number;
    this.entries.set([...this.#kept.values()].sort(order));
  }

  // One at a time in each conversation, so that what was said first arrives first.
  #flush(): void {
    if (!this.#open) return;
    const busy = new Set<string>();
    for (const entry of this.entries.get()) {
      if (entry.state !== "waiting" || busy.has(entry.conversation_id)) continue;
      busy.add(entry.conversation_id);
      if (!this.#sending.has(entry.key)) void this.#send(entry as Kept);
    }
  }

  async #send(entry: Kept): Promise<void> {
    this.#sending.add(entry.key);
    try {
      if (isPlace(entry.conversation_id)) this.#move(entry.conversation_id, await this.#parts.make(entry.conversation_id));
      else {
        await this.#parts.deliver(entry);
        this.discard(entry.key);
      }
      this.#sending.delete(entry.key);
      this.#failures = 0;
      this.#flush();
    } catch (error) {
      this.#sending.delete(entry.key);
      this.#fail(entry, error);
    }
  }

  /** Its conversation is there: what was said to the place is said to that. */
  #move(place: Place, conversation_id: string): void {
    for (const entry of [...this.#kept.values()]) {
      if (entry.conversation_id === place) this.#keep({ ...entry, conversation_id });
    }
    this.made.update((made) => new Map([...made, [place, conversation_id]]));
  }

  #fail(entry: Kept, error: unknown): void {
    if (error instanceof LoopError && !error.retryable) {
      if (this.#kept.has(entry.key)) this.#keep({ ...entry, state: "refused", code: error.code });
      this.#flush();
      return;
    }
    this.#failures += 1;
    const wait_ms = Math.min(LONGEST_AGAIN_MS, AGAIN_MS * 2 ** (this.#failures - 1));
    this.#stopTimer();
    this.#stopTimer = this.#parts.time.after(wait_ms, () => this.#flush());
  }
}

/** What is too long to be sent does not wait: it lay here before it was refused at once. */
function judged(entry: Kept): Kept {
  return isTooLong(entry.text) ? { ...entry, state: "refused", code: "limit_exceeded" } : entry;
}

function parse(text: string | null): Kept | null {
  let value: unknown;
  try {
    value = JSON.parse(text ?? "null");
  } catch {
    return null;
  }
  if (!isObject(value)) return null;
  const { key, conversation_id, text: said, created_at, number } = value;
  if (typeof key !== "string" || typeof conversation_id !== "string" || typeof said !== "string") return null;
  return {
    key,
    conversation_id,
    text: said,
    target: target(value["target"]),
    reply_to_id: typeof value["reply_to_id"] === "string" ? value["reply_to_id"] : null,
    created_at: typeof created_at === "string" ? created_at : "",
    state: value["state"] === "refused" ? "refused" : "waiting",
    code: typeof value["code"] === "string" ? value["code"] : null,
    number: typeof number === "number" ? number : 0,
  };
}

function target(value: unknown): Target | null {
  if (value === FIRST_THERE) return FIRST_THERE;
  if (!isObject(value)) return null;
  const { kind, key } = value;
  return typeof kind === "string" && typeof key === "string" ? { kind, key } : null;
}

/** The params of the `say` action for an entry, to the target that it has by now. */
export function sayParams(entry: Waiting, target: ActorName | null): JsonObject {
  const { conversation_id, key, text, reply_to_id } = entry;
  return {
    conversation_id,
    key,
    text,
    ...(target === null ? {} : { target: { kind: target.kind, key: target.key } }),
    ...(reply_to_id === null ? {} : { reply_to_id }),
  };
}
