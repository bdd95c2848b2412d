// @vitest-environment jsdom
// What the person sees and does, over a Runtime that does what the test says.

import { act, cleanup, fireEvent, render, screen, waitFor, within } from "@testing-library/react";
import { emptyContent, type Block } from "@lineloop/ui-model";
import { StrictMode } from "react";
import { describe, expect, test } from "vitest";
import { announcement } from "../../src/runtime/announce.ts";
import { FIRST_THERE } from "../../src/runtime/chat-core.ts";
import { ASSISTANT, ROOT, block, call, chatState, held, message, said, stamp } from "./fake-core.ts";
import { Page, button, core, eachInItsOwnPage, field, log, opened, press, show, startOver, tell, write } from "./page.tsx";

eachInItsOwnPage();

describe("conversations", () => {
  test("[L179] the other conversation's late words never appear", async () => {
    show();
    await tell(() => core.snapshot({ messages: [message(1, { blocks: [block("text", "words of a")] })] }));
    const follower = [...core.followings][0];
    fireEvent.click(button(/Garden/));
    await tell(() => core.snapshot({ messages: [message(1, { id: "b", blocks: [block("text", "words of b")] })] }, "conv_b"));
    fireEvent.click(button(/Report/));
    await tell(() => follower?.onEvent("messages.message", { message: message(2, { blocks: [block("text", "late")] }) as never }));
    expect(log().textContent).toBe("");
    await tell(() => core.snapshot({ messages: [message(1, { blocks: [block("text", "words of a")] })] }));
    expect(log().textContent).toContain("words of a");
    expect(log().textContent).not.toMatch(/late|words of b/);
    expect(core.followings.size).toBe(1);
  });

  test("[L180] mounted twice it follows once", async () => {
    render(
      <StrictMode>
        <Page first={ROOT} />
      </StrictMode>,
    );
    await tell(() => core.snapshot({ messages: [message(1)] }));
    expect(core.followings.size).toBe(1);
    expect(screen.getAllByText("message 1")).toHaveLength(1);
  });

  test("[L183] one that is made in the background does not take the person away", async () => {
    show();
    fireEvent.click(button("New conversation"));
    write("a new thing");
    press("Enter");
    fireEvent.click(button(/Garden/));
    const row = { id: "conv_c", title: "A new thing", name: null, created_at: stamp(9), last_at: stamp(9), last_ordinal: 1, unread: 1 };
    await tell(() => {
      core.make("conv_c");
      core.state.set(chatState({ conversations: [row, ...chatState().conversations] }));
    });
    expect(opened).toEqual(["conv_b"]);
    expect(button(/A new thing/).getAttribute("aria-current")).toBe("false");
    expect(core.outbox.get()).toMatchObject([{ conversation_id: "conv_c", text: "a new thing" }]);
  });

  test("[L184] refused first words are shown with their error, and go again into the same conversation", async () => {
    show(null);
    write("first words");
    press("Enter");
    await tell(() => core.make("conv_c"));
    expect(opened).toEqual(["conv_c"]);
    await tell(() => core.snapshot({}, "conv_c"));
    await tell(() => core.outbox.update(([one]) => (one === undefined ? [] : [{ ...one, state: "refused", code: "overloaded" }])));
    expect(screen.getByRole("alert").textContent).toContain("Not sent: there is too much to do just now. overloaded");
    fireEvent.click(button("Try again"));
    expect(core.asks("again")).toEqual([{ key: "key_1" }]);
    expect(core.outbox.get()).toMatchObject([{ conversation_id: "conv_c", state: "waiting" }]);
  });

  test("one that cannot be made yet has its words, also after a reload, and is opened when it is made", async () => {
    core.link.set("gone");
    show(null);
    write("first words");
    press("Enter");
    write("and more");
    press("Enter");
    expect([field().value, field().disabled]).toEqual(["", false]);
    const kept = core.outbox.get();
    startOver();
    core.outbox.set(kept);
    show(null);
    expect(within(log()).getAllByRole("article").map((one) => one.textContent)).toEqual([
      expect.stringMatching(/first words.*Waits to be sent/) as string,
      expect.stringMatching(/and more.*Waits to be sent/) as string,
    ]);
    write("not sent");
    await tell(() => core.make("conv_c"));
    expect([opened, field().value]).toEqual([["conv_c"], "not sent"]);
    expect(document.activeElement).toBe(field());
  });

  test("one that is refused says why, and its words can be sent again, taken back or thrown away", async () => {
    show(null);
    write("first words");
    press("Enter");
    await tell(() => core.outbox.update((kept) => kept.map((one) => ({ ...one, state: "refused", code: "forbidden" }))));
    expect(screen.getByRole("alert").textContent).toContain("forbidden");
    fireEvent.click(button("Try again"));
    expect(core.asks("again")).toEqual([{ key: "key_1" }]);
    await tell(() => core.outbox.update((kept) => kept.map((one) => ({ ...one, state: "refused", code: "forbidden" }))));
    fireEvent.click(button("Edit"));
    expect([field().value, core.outbox.get()]).toEqual(["first words", []]);
    expect(button("What can you do here?")).toBeTruthy();
  });

  test("what was read is told once, with the newest message in sight", async () => {
    show();
    await tell(() => core.snapshot({ messages: [message(4)] }));
    await tell(() => core.message(message(4, { revision: 1 })));
    expect(core.asks("mark_read")).toEqual([{ conversation_id: ROOT, ordinal: 4 }]);
  });

});

describe("writing", () => {
  test("what is too long is not accepted, is said in words, and stays where it was written", async () => {
    show();
    write("a".repeat(2_000_000));
    press("Enter");
    expect(core.outbox.get()).toEqual([]);
    expect(field().value).toHaveLength(2_000_000);
    expect(screen.getByRole("alert").textContent).toMatch(/Not sent: it is too long.*limit_exceeded/);
    expect(localStorage.length).toBe(0);
    write("shorter");
    expect(screen.queryByRole("alert")).toBeNull();
    press("Enter");
    expect(core.outbox.get()).toMatchObject([{ text: "shorter" }]);
    expect(field().value).toBe("");
  });

  test("first words that are too long make no conversation", () => {
    show(null);
    write("a".repeat(2_000_000));
    press("Enter");
    expect(core.outbox.get()).toEqual([]);
    expect(screen.getByRole("alert").textContent).toContain("it is too long");
  });

  test("what the browser has no room for stays where it was written, and it is said", async () => {
    show();
    core.full = true;
    write("some words");
    press("Enter");
    expect(field().value).toBe("some words");
    expect(screen.getByRole("alert").textContent).toContain("there is no room to keep it");
    core.full = false;
    press("Enter");
    expect(core.outbox.get()).toMatchObject([{ text: "some words" }]);
    expect(screen.queryByRole("alert")).toBeNull();
  });

  test("first words without room stay where they were written, too", () => {
    core.full = true;
    show(null);
    write("first words");
    press("Enter");
    expect(screen.getByRole("alert").textContent).toContain("no room");
    expect(field().value).toBe("first words");
    core.full = false;
    press("Enter");
    expect(core.outbox.get()).toMatchObject([{ text: "first words" }]);
  });

  test("a suggestion chosen twice is there once", () => {
    show(null);
    const suggestion = button("What can you do here?");
    fireEvent.click(suggestion);
    fireEvent.click(suggestion);
    expect(field().value).toBe("What can you do here?");
  });

  test("Enter sends, Shift-Enter does not, and neither does the Enter of an input method", () => {
    show();
    write("你好");
    press("Enter", { isComposing: true });
    press("Enter", { keyCode: 229 });
    press("Enter", { shiftKey: true });
    expect(core.outbox.get()).toEqual([]);
    press("Enter");
    expect(core.outbox.get()).toMatchObject([{ text: "你好", conversation_id: ROOT, target: ASSISTANT }]);
    expect(field().value).toBe("");
  });

  test("[L182] a draft stays with its conversation, and so does what was sent", async () => {
    show();
    write("for the report");
    fireEvent.click(button(/Garden/));
    expect(field().value).toBe("");
    write("for the garden");
    fireEvent.click(button(/Report/));
    expect(field().value).toBe("for the report");
    press("Enter");
    fireEvent.click(button(/Garden/));
    await tell(() => core.snapshot({}, "conv_b"));
    expect(field().value).toBe("for the garden");
    expect(log().textContent).toBe("");
    expect(core.outbox.get()).toMatchObject([{ conversation_id: ROOT, text: "for the report" }]);
  });

  test("a draft is there again after a reload", () => {
    const { unmount } = show();
    write("half a sentence");
    unmount();
    show();
    expect(field().value).toBe("half a sentence");
  });

  test("↑ in an empty field brings back what was said last; in a draft it moves the caret", async () => {
    show();
    await tell(() => core.snapshot({ messages: [said(1, "older"), said(2, "newest"), message(3)] }));
    press("ArrowUp");
    expect(field().value).toBe("newest");
    write("something else");
    press("ArrowUp");
    expect(field().value).toBe("something else");
  });

  test("whom one spoke to last is kept for each conversation", () => {
    const research = { kind: "operator", key: "research", display_name: "Research", description: "", online: true };
    core.state.set(chatState({ recipients: [...chatState().recipients, research] }));
    const { unmount } = show();
    fireEvent.change(screen.getByRole("combobox", { name: "To" }), { target: { value: "operator/research" } });
    fireEvent.click(button(/Garden/));
    expect(screen.getByRole<HTMLSelectElement>("combobox", { name: "To" }).value).toBe("operator/assistant");
    unmount();
    show();
    write("hi");
    press("Enter");
    expect(core.outbox.get()).toMatchObject([{ target: { kind: "operator", key: "research" } }]);
    fireEvent.change(screen.getByRole("combobox", { name: "To" }), { target: { value: "everyone" } });
    write("all");
    press("Enter");
    expect(core.outbox.get()[1]?.target).toBeNull();
  });

  test("what is said before it is known who is there goes to whoever is the first then, not to everybody", () => {
    core.state.set(chatState({ recipients_known: false }));
    show();
    expect(screen.getByRole("option", { name: "Looking who is here…" })).toBeDefined();
    write("hi");
    press("Enter");
    expect(core.outbox.get()).toMatchObject([{ text: "hi", target: FIRST_THERE }]);
    act(() => core.state.set(chatState()));
    write("again");
    press("Enter");
    expect(core.outbox.get()[1]).toMatchObject({ text: "again", target: ASSISTANT });
  });

  test("a saying that the server refused goes again under the same key", async () => {
    show();
    const refused = held("key_9", { state: "refused", code: "not_participant", text: "again?", target: ASSISTANT });
    await tell(() => core.snapshot({ sayings: [refused] }));
    fireEvent.click(button("Try again"));
    expect(core.asks("say")).toEqual([{ conversation_id: ROOT, key: "key_9", text: "again?", target: ASSISTANT }]);
    fireEvent.click(button("Edit"));
    await waitFor(() => expect(field().value).toBe("again?"));
    expect(core.asks("forget_saying")).toEqual([{ key: "key_9" }]);
    await tell(() => undefined);
    expect(screen.queryByRole("alert")).toBeNull();
  });

  test("while a run works and nothing is written, Send is Stop, and stays honest", async () => {
    show();
    const run = message(1, { id: "run_1", purpose: "run", status: "streaming", conversation_id: "conv_p" });
    await tell(() => core.snapshot({ messages: [run] }));
    const [stop] = screen.getAllByRole<HTMLButtonElement>("button", { name: "Stop" });
    fireEvent.click(stop as HTMLElement);
    await tell(() => undefined);
    expect(screen.getAllByRole<HTMLButtonElement>("button", { name: /Stopping/ }).every((one) => one.disabled)).toBe(true);
    expect(log().textContent).not.toContain("Stopped");
    await tell(() => core.message({ ...run, status: "cancelled", revision: 1 }));
    expect(log().textContent).toContain("Stopped");
    expect(screen.queryByRole("button", { name: /Stop/ })).toBeNull();
    expect(button("Send")).toBeTruthy();
  });

  test("while the Runtime is gone Stop asks nobody and says why, and keeps the keyboard", async () => {
    show();
    const run = message(1, { id: "run_1", purpose: "run", status: "streaming", conversation_id: "conv_p" });
    await tell(() => core.snapshot({ messages: [run] }));
    const stops = screen.getAllByRole("button", { name: "Stop" });
    stops[0]?.focus();
    await tell(() => core.link.set("gone"));
    for (const stop of stops) {
      expect(stop.getAttribute("aria-disabled")).toBe("true");
      const reason = document.getElementById(stop.getAttribute("aria-describedby") ?? "");
      expect(reason?.textContent).toContain("Lineloop is not running");
      fireEvent.click(stop);
    }
    expect(document.activeElement).toBe(stops[0]);
    expect(core.asks("stop_run")).toEqual([]);
    await tell(() => core.link.set("online"));
    fireEvent.click(stops[0] as HTMLElement);
    expect(core.asks("stop_run")).toEqual([{ message_id: "run_1" }]);
  });
});

describe("blocks", () => {
  const shown = async (...blocks: Block[]) => {
    show();
    await tell(() => core.snapshot({ messages: [message(1, { blocks })] }));
    return log();
  };

  test("[L190] text is verbatim, markdown is drawn, a tool shows its name and state", async () => {
    const tool: Block = { id: "t", type: "tool", name: "notes__search", title: "notes__search", state: "dispatched", arguments: { q: 1 } };
    const place = await shown(block("text", "**not bold** <b>x</b>"), block("markdown", "**bold** `code`"), tool);
    expect(place.querySelector(".block-text")?.textContent).toBe("**not bold** <b>x</b>");
    expect(place.querySelector("strong")?.textContent).toBe("bold");
    expect(place.querySelector(".block-markdown code")?.textContent).toBe("code");
    expect(place.querySelector(".block-tool summary")?.textContent).toContain("notes__search");
    expect(place.querySelector(".block-tool summary")?.textContent).toContain("at work");
  });

  test("[L191] an unknown type is visible and does nothing", async () => {
    const place = await shown({ id: "h", type: "hologram", html: "<button>x</button>", src: "http://sink.example/a.png" });
    expect(place.textContent).toContain("hologram");
    const body = place.querySelector(".block-unknown");
    expect(body?.querySelector("button, a, img, input, iframe, form")).toBeNull();
  });

  test("a text result that repeats what was said is not said twice", async () => {
    const place = await shown(block("text", "forty-two"), { id: "result", type: "result", format: "text", content: "forty-two" });
    expect(screen.getAllByText("forty-two")).toHaveLength(1);
    cleanup();
    await shown({ id: "result", type: "result", format: "json", content: { answer: 42 } });
    expect(log().textContent).toContain('"answer": 42');
    expect(place).toBeTruthy();
  });

  test("[L198] visible text stays beside the sign of how it stands", async () => {
    show();
    const one = message(1, { status: "streaming", blocks: [block("text", "half an")] });
    await tell(() => core.snapshot({ messages: [one] }));
    expect(log().querySelector("[data-streaming=true]")?.textContent).toContain("half an");
    await tell(() => core.message({ ...one, status: "cancelled", revision: 1 }));
    expect(log().textContent).toMatch(/half an.*Stopped/);
    const content = { ...one.content, meta: { error: { code: "model_unavailable", message: "no answer" } } };
    await tell(() => core.message({ ...one, status: "failed", revision: 2, content }));
    expect(log().textContent).toMatch(/half an.*no answer.*model_unavailable/);
  });

  test("begin and end of an answer are announced, its words are not", async () => {
    show();
    await tell(() => core.snapshot());
    const one = message(1, { status: "streaming", blocks: [block("text", "so")] });
    await tell(() => core.message(one));
    expect(announcement.get().text).toBe("Assistant is answering");
    await tell(() => core.append("msg_1", 1, " far"));
    expect(announcement.get().text).toBe("Assistant is answering");
    await tell(() => core.message({ ...one, status: "completed", revision: 2 }));
    expect(announcement.get().text).toBe("Assistant has answered");
    expect(log().getAttribute("aria-live")).toBe("off");
  });

  test("a call stands under the words that caused it and follows its receipts", async () => {
    show();
    const run = message(1, { id: "run_1", purpose: "run", status: "streaming", conversation_id: "conv_p", content: { ...emptyContent(), meta: { input_id: "msg_1" } } });
    await tell(() => core.snapshot({ messages: [said(1, "tea"), run], calls: [call({ run_message_id: "run_1" })] }));
    const line = () => document.querySelector("#message-msg_1 .call-line summary")?.textContent ?? "";
    expect(line()).toContain("Pomodoro");
    expect(line()).toContain("asked for");
    const ends_at = new Date(Date.now() + 60_500).toISOString();
    const receipts = [{ stage: "starting", sequence: 1, at: stamp(2) }, { stage: "started", sequence: 2, at: stamp(3) }];
    await tell(() => core.tell("call", { call: call({ run_message_id: "run_1", state: "operating", receipts, ends_at }) }));
    expect(line()).toMatch(/running.*1:0[01] left/);
    const ended = { state: "succeeded", ended_at: stamp(60), result: { outcome: "interrupted", elapsed_ms: 57_000, reason: "user_request" } };
    await tell(() => core.tell("call", { call: call({ run_message_id: "run_1", receipts, ...ended }) }));
    expect(line()).toMatch(/ended early · user request.*0:57/);
  });
});

describe("the work behind a message", () => {
  const pane = () => screen.getByRole("complementary", { name: "Work" });

  test("[L197] nothing selected, nobody at work, searching and nothing done have their own words", async () => {
    core.answers.set("messages.list", () => ({ messages: [], more: false }));
    show();
    await tell(() => core.snapshot());
    expect(pane().textContent).toContain("Choose a message");
    await tell(() => core.message(said(1, "to all", { target: null })));
    expect(pane().textContent).toContain("No operator works on this");
    await tell(() => core.message(said(2, "do it")));
    expect(pane().textContent).toContain("Assistant");
    expect(pane().textContent).toContain("Looking for what Assistant did");
    await tell(() => core.snapshot({ messages: [said(2, "do it")], processes: [{ conversation_id: "conv_p", actor: ASSISTANT }] }));
    expect(pane().textContent).toContain("has done nothing for this message yet");
  });

  test("shows what was done, fetched for an old message, with calls and how long it took", async () => {
    const work = message(1, {
      ...{ id: "run_1", purpose: "run", conversation_id: "conv_p", created_at: stamp(2), updated_at: stamp(67) },
      content: { ...emptyContent(), meta: { input_id: "msg_1" }, blocks: [block("text", "looked it up")] },
    });
    core.answers.set("messages.list", () => ({ messages: [work] as never, more: false }));
    show();
    const calls = [call({ run_message_id: "run_1" })];
    await tell(() => core.snapshot({ messages: [said(1, "do it"), message(9, { reply_to_id: "msg_1" })], calls, processes: [{ conversation_id: "conv_p", actor: ASSISTANT }] }));
    await tell(() => undefined);
    expect(core.asks("messages.list")).toEqual([{ conversation_id: "conv_p", limit: 50 }]);
    expect(pane().textContent).toContain("looked it up");
    expect(pane().textContent).toContain("1:05");
    expect(pane().textContent).toContain("Pomodoro");
    fireEvent.click(within(document.getElementById("message-msg_9") as HTMLElement).getByRole("button", { name: "Show the work behind this" }));
    expect(pane().textContent).toContain("looked it up");
  });
});

test("docked it shows one conversation and nothing else", async () => {
  render(<Page first={ROOT} docked />);
  await tell(() => core.snapshot({ messages: [message(1)] }));
  expect(screen.queryByRole("navigation")).toBeNull();
  expect(screen.queryByRole("complementary")).toBeNull();
  expect(log().textContent).toContain("message 1");
});

test("offline is said, with how much waits", async () => {
  show();
  await tell(() => core.state.set(chatState({ connection: { state: "offline", waiting: 2, since: stamp(1) } })));
  expect(document.body.textContent).toContain("2 messages wait");
  await tell(() => core.link.set("gone"));
  expect(document.body.textContent).not.toContain("messages wait");
});
