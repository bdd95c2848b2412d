// What the parts of an open conversation share. Values in it never change while the conversation stays open.

import { createContext, use } from "react";
import type { ChatCore } from "../../runtime/chat-core.ts";
import type { Transcript } from "../model/transcript.ts";

export interface OpenConversation {
  readonly core: ChatCore;
  readonly transcript: Transcript;
  /** Shows the work behind a message. */
  readonly select: (messageId: string) => void;
  /** Brings a message of the conversation into sight, wherever it stands. */
  readonly goTo: (messageId: string) => Promise<void>;
  /** Puts words back into the composer. */
  readonly edit: (text: string) => void;
}

export const OpenConversationContext = createContext<OpenConversation | null>(null);

export function useConversation(): OpenConversation {
  const open = use(OpenConversationContext);
  if (open === null) throw new Error("this part belongs into an open conversation");
  return open;
}
