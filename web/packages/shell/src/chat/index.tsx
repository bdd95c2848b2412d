// The chat, docked beside an app or filling the window.

import type { ChatCore } from "../runtime/chat-core.ts";
import { useStore } from "../runtime/store.ts";

export interface ChatProps {
  /** The chat's session with the Runtime; the same object for the life of the page. */
  readonly core: ChatCore;
  /**
   * false: the chat is everything (three panes when wide). true: it stands in a narrow column, or in a sheet on a
   * phone, beside the app of `conversationId`; show the one conversation, without its list. Use container queries:
   * the column is a size container named `chat`.
   */
  readonly docked: boolean;
  /** The open conversation; null before the first one exists (then show how to begin). */
  readonly conversationId: string | null;
  /** The person chose another one (or made one). The frame tells the Runtime (`open_conversation`) and changes the prop. */
  readonly onConversation: (conversationId: string) => void;
}

export function Chat({ core, docked, conversationId, onConversation }: ChatProps) {
  const state = useStore(core.state);
  return (
    <section className="chat" data-docked={docked} aria-label="Chat">
      <ul>
        {(state?.conversations ?? []).map((row) => (
          <li key={row.id}>
            <button type="button" aria-current={row.id === conversationId} onClick={() => onConversation(row.id)}>
              {row.title}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
