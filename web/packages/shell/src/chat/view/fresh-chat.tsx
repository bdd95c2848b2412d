// A conversation that does not exist yet. Its first words make it, as soon as they can; until then they stand here.

import { LoopError } from "@lineloop/ui-model";
import { useEffect, useRef, useState } from "react";
import { isPlace, newPlace, type ChatCore, type ChatState, type Place } from "../../runtime/chat-core.ts";
import { useText } from "../../i18n/index.ts";
import { useStore } from "../../runtime/store.ts";
import { FRESH, addressed, type Memory, type Recipient } from "../model/memory.ts";
import { Beginning } from "./beginning.tsx";
import { Composer, type ComposerHandle } from "./composer.tsx";
import { hasKeyboard } from "./composing.ts";
import { ConnectionNote } from "./connection-note.tsx";
import { SayingView } from "./saying-view.tsx";

export interface FreshChatProps {
  readonly core: ChatCore;
  readonly state: ChatState | null;
  readonly memory: Memory;
  readonly onBegun: (conversationId: string) => void;
}

/** Whoever looks elsewhere when the conversation is made stays there. */
export function FreshChat({ core, state, memory, onBegun }: FreshChatProps) {
  const t = useText();
  const composer = useRef<ComposerHandle>(null);
  const spokenTo = useRef<Recipient | null>(null);
  const away = useStore(core.link) !== "online";
  const outbox = useStore(core.outbox);
  const made = useStore(core.made);
  // What waits for its conversation from before a reload is gone on with.
  const [place] = useState<Place>(() => core.outbox.get().map((one) => one.conversation_id).find(isPlace) ?? newPlace());
  const said = outbox.filter((one) => one.conversation_id === place);
  const begun = made.get(place);
  useEffect(() => {
    if (hasKeyboard()) composer.current?.focus();
  }, []);
  useEffect(() => {
    if (begun === undefined) return;
    if (spokenTo.current !== null) memory.keepRecipient(begun, spokenTo.current);
    // What is being written goes along.
    memory.keepDraft(begun, memory.draft(FRESH));
    memory.keepDraft(FRESH, "");
    onBegun(begun);
  }, [begun, memory, onBegun]);

  const send = (text: string, recipient: Recipient | null) => {
    try {
      core.say({ conversation_id: place, text, ...addressed(recipient, state) });
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      return error.code;
    }
    spokenTo.current = recipient;
    return null;
  };

  return (
    <div className="centre">
      {said.length === 0 ? (
        <Beginning state={state} onPick={(text) => composer.current?.edit(text)} />
      ) : (
        <div className="transcript-frame">
          <div className="transcript" role="log" aria-live="off" aria-label={t("chat.transcript")} tabIndex={0}>
            <div className="transcript-inner page">
              {said.map((saying, number) => (
                <div key={saying.key} className="row-slot" data-joined={number > 0}>
                  <SayingView
                    saying={saying.state === "waiting" && !away ? { ...saying, state: "pending" } : saying}
                    joined={number > 0}
                    onAgain={() => core.again(saying.key)}
                    onDrop={() => core.discard(saying.key)}
                    onEdit={(text) => composer.current?.edit(text)}
                  />
                </div>
              ))}
            </div>
          </div>
        </div>
      )}
      <ConnectionNote core={core} />
      <Composer
        ref={composer}
        conversationId={FRESH}
        memory={memory}
        state={state}
        running={null}
        lastSaid={() => said.at(-1)?.text ?? null}
        onSend={send}
      />
    </div>
  );
}
