// The chat's session with the Runtime, with the outbox in front of it.

import { isObject, type JsonObject } from "@lineloop/ui-model";
import { FIRST_THERE, firstThere, type ActorName, type ChatCore, type ChatState } from "./chat-core.ts";
import type { RuntimeClient } from "./client.ts";
import { CoreSession } from "./core-session.ts";
import { Outbox, sayParams } from "./outbox.ts";
import { Store, type Readable } from "./store.ts";
import { freshId, type Time } from "./time.ts";

export interface ChatSession extends ChatCore {
  /** Another tab changed the storage. */
  reloadOutbox(): void;
}

export function openChat(client: RuntimeClient, storage: Storage, time: Time): ChatSession {
  const session = new CoreSession(client, "chat", time);
  const state = new Store<ChatState | null>(null);
  const outbox = new Outbox({
    storage,
    time,
    // The key is the id of the action too: whatever is repeated is answered as the first time.
    deliver: (entry) => {
      const say = (target: ActorName | null) =>
        session.request("action.dispatch", { id: entry.key, action: "say", params: sayParams(entry, target) });
      return entry.target === FIRST_THERE ? whoIsFirst(state).then(say) : say(entry.target);
    },
    make: async (place) => {
      const params = { key: place };
      const made = await session.request("action.dispatch", { id: place, action: "create_conversation", params });
      return String(made["id"]);
    },
  });
  const take = (value: unknown) => {
    if (!isObject(value) || !Array.isArray(value["conversations"])) return;
    const before = state.get();
    state.set(value as unknown as ChatState);
    // A conversation needs the server: what waits for it does so no longer than that is away.
    const isBack = before !== null && !isServerThere(before) && isServerThere(value as unknown as ChatState);
    if (isBack && session.init.get() !== null) outbox.open(true);
  };
  session.init.subscribe(() => {
    const init = session.init.get();
    if (init !== null) take(init["state"]);
    outbox.open(init !== null);
  });
  session.follow("state", {}, (_type, payload) => take(payload["state"]));
  return {
    link: client.link,
    state,
    outbox: outbox.entries,
    made: outbox.made,
    say: (saying) => outbox.say(saying),
    again: (key) => outbox.again(key),
    discard: (key) => outbox.discard(key),
    dispatch: (action: string, params: JsonObject) =>
      session.request("action.dispatch", { id: freshId("act"), action, params }),
    exportPath: async (conversation_id, format) => {
      const answer = await client.request("export.open", { conversation_id, format });
      return String(answer["path"]);
    },
    request: (type, payload) => session.request(type, payload),
    follow: (family, payload, onEvent) => session.follow(family, payload, onEvent),
    reloadOutbox: () => outbox.reload(),
  };
}

const isServerThere = (state: ChatState): boolean => state.connection?.state === "online";

/** Resolves as soon as the Runtime can say who is there. */
function whoIsFirst(state: Readable<ChatState | null>): Promise<ActorName | null> {
  return new Promise((resolve) => {
    const look = () => {
      const now = state.get();
      if (now === null || !now.recipients_known) return;
      stop();
      resolve(firstThere(now));
    };
    const stop = state.subscribe(look);
    look();
  });
}
