import { describe, expect, test } from "vitest";
import { decodeEvents, EMPTY_VIEW, takeEvent, type StreamEvent } from "../src/index.ts";
import { cases } from "./golden.ts";

interface Frames {
  readonly name: string;
  readonly text: string;
  readonly events: readonly StreamEvent[];
}

interface Viewed {
  readonly name: string;
  readonly events: readonly StreamEvent[];
  readonly messages: Readonly<Record<string, unknown>>;
  readonly resyncs: number;
  readonly last_event_id: string;
}

describe("the conversation stream", () => {
  test.each(cases<Frames>("sse/frames.json"))("reads frames: $name", ({ text, events }) => {
    expect(decodeEvents(text)).toEqual(events);
  });

  test.each(cases<Viewed>("sse/viewer.json"))("$name", (one) => {
    let view = EMPTY_VIEW;
    let resyncs = 0;
    for (const event of one.events) {
      const taken = takeEvent(view, event);
      view = taken.view;
      resyncs += Number(taken.resync);
    }
    const seen = Object.fromEntries(
      [...view.messages].map(([id, { revision, status, content }]) => [
        id,
        { revision, status, text: content.blocks[0]?.["content"] },
      ]),
    );
    expect(seen).toEqual(one.messages);
    expect([resyncs, view.lastEventId]).toEqual([one.resyncs, one.last_event_id]);
    expect(EMPTY_VIEW.messages.size).toBe(0);
  });
});
