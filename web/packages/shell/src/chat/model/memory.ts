// What the page remembers for the person: unsent drafts and whom they spoke to last, per conversation.
// Storage may be full or forbidden; then it is remembered until the page goes.

import { FIRST_THERE, isTooLong, type ActorName, type ChatState, type Saying } from "../../runtime/chat-core.ts";

const DRAFT = "lineloop.chat.draft.";
const RECIPIENT = "lineloop.chat.recipient.";

/** Stands for the conversation that does not exist yet. */
export const FRESH = "new";

/** Whom to speak to: an operator, or everybody who takes part. */
export type Recipient = ActorName | "everyone";

export class Memory {
  readonly #storage: Storage | null;
  readonly #kept = new Map<string, string>();

  constructor(storage: Storage | null) {
    this.#storage = storage;
  }

  draft(conversationId: string): string {
    return this.#read(DRAFT + conversationId) ?? "";
  }

  keepDraft(conversationId: string, text: string): void {
    // What is too long to be sent would take the room of what can be.
    if (isTooLong(text)) {
      this.#write(DRAFT + conversationId, null);
      this.#kept.set(DRAFT + conversationId, text);
    } else this.#write(DRAFT + conversationId, text === "" ? null : text);
  }

  recipient(conversationId: string): Recipient | null {
    const kept = this.#read(RECIPIENT + conversationId);
    if (kept === null || kept === "everyone") return kept;
    const slash = kept.lastIndexOf("/");
    return { kind: kept.slice(0, slash), key: kept.slice(slash + 1) };
  }

  keepRecipient(conversationId: string, recipient: Recipient): void {
    this.#write(RECIPIENT + conversationId, nameOf(recipient));
  }

  #read(key: string): string | null {
    const kept = this.#kept.get(key);
    if (kept !== undefined) return kept;
    try {
      return this.#storage?.getItem(key) ?? null;
    } catch {
      return null;
    }
  }

  #write(key: string, value: string | null): void {
    if (value === null) this.#kept.delete(key);
    else this.#kept.set(key, value);
    try {
      if (value === null) this.#storage?.removeItem(key);
      else this.#storage?.setItem(key, value);
    } catch {
      // It stays in this page's memory.
    }
  }
}

export const nameOf = (recipient: Recipient): string =>
  recipient === "everyone" ? "everyone" : `${recipient.kind}/${recipient.key}`;

/** What a saying tells of whom it goes to. null: nobody was chosen, and nobody is known. */
export function addressed(recipient: Recipient | null, state: ChatState | null): Pick<Saying, "target"> {
  if (recipient === "everyone") return {};
  if (recipient !== null) return { target: recipient };
  return state?.recipients_known ? {} : { target: FIRST_THERE };
}
