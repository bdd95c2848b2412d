// @vitest-environment jsdom
// Questions to the person and their replies: what is shown is what is stored.

import { cleanup, fireEvent, screen, within } from "@testing-library/react";
import type { Block } from "@lineloop/ui-model";
import { describe, expect, test } from "vitest";
import { Later, PERSON, ROOT, held, message, said, stamp } from "./fake-core.ts";
import { button, core, eachInItsOwnPage, log, show, startOver, tell } from "./page.tsx";

eachInItsOwnPage();

const CHOICES = [
  { value: "a", label: "Apples" },
  { value: "b", label: "Bread" },
];
const ask = (more: Partial<Block> = {}): Block => ({
  ...{ id: "question", type: "ask", text: "What to buy?", choices: CHOICES, allow_other: true, deadline_at: stamp(900) },
  ...{ state: "pending", value: null },
  ...more,
});
const confirm = (more: Partial<Block> = {}): Block => {
  const choices = [{ value: "accepted", label: "Do it" }, { value: "declined", label: "Leave it" }];
  return ask({ type: "confirm", text: "Sure?", choices, allow_other: false, ...more });
};
const question = (one: Block, revision = 0) => message(3, { purpose: "question", target: PERSON, blocks: [one], revision });
const card = () => screen.getByRole("article", { name: "Question to you" });

describe("cards", () => {
  const ready = async (one: Block) => {
    show();
    await tell(() => core.snapshot({ messages: [question(one)] }));
  };

  test("an answer is sent once, and shown as given only when it is stored", async () => {
    await ready(ask());
    const later = new Later();
    core.answers.set("answer", () => later.promise);
    fireEvent.click(within(card()).getByLabelText("Bread"));
    fireEvent.click(button("Answer", card()));
    fireEvent.submit(card().querySelector("form") as HTMLFormElement);
    expect(core.asks("answer")).toEqual([{ conversation_id: ROOT, question_id: "msg_3", value: "b" }]);
    expect(card().querySelector("fieldset")?.disabled).toBe(true);
    await tell(() => later.answer({}));
    expect(card().dataset["state"]).toBe("pending");
    expect(card().querySelector("fieldset")?.disabled).toBe(true);
    await tell(() => core.message(question(ask({ state: "success", value: "a" }), 1)));
    expect(within(card()).getByLabelText<HTMLInputElement>("Apples").checked).toBe(true);
    expect(within(card()).getByLabelText<HTMLInputElement>("Bread").checked).toBe(false);
    expect(card().textContent).toContain("Answered");
  });

  test("what was typed stays when it could not be sent, and can be sent again", async () => {
    await ready(ask());
    const later = new Later();
    core.answers.set("answer", () => later.promise);
    const words = within(card()).getByRole<HTMLTextAreaElement>("textbox");
    fireEvent.change(words, { target: { value: "  olives " } });
    fireEvent.keyDown(words, { key: "Enter", isComposing: true });
    expect(core.asks("answer")).toEqual([]);
    fireEvent.keyDown(words, { key: "Enter" });
    await tell(() => later.refuse("connection_lost"));
    expect(words.value).toBe("  olives ");
    expect(screen.getByRole("alert").textContent).toContain("still here: the connection was lost. connection_lost");
    await tell(() => core.link.set("gone"));
    expect(screen.queryByRole("alert")).not.toBeNull();
    await tell(() => core.link.set("online"));
    expect(screen.queryByRole("alert")).toBeNull();
    fireEvent.click(button("Answer", card()));
    expect(core.asks("answer").map((one) => one["value"])).toEqual(["olives", "olives"]);
  });

  test("an answer that the server refuses is told on its card, and can be given again", async () => {
    await ready(ask());
    fireEvent.click(within(card()).getByLabelText("Bread"));
    fireEvent.click(button("Answer", card()));
    const answer = held("ans_1", { kind: "answer", question_id: "msg_3", text: "" });
    await tell(() => core.tell("saying", { saying: answer }));
    expect(card().querySelector("fieldset")?.disabled).toBe(true);
    await tell(() => core.tell("saying", { saying: { ...answer, state: "refused", code: "answer_invalid" } }));
    expect(screen.getByRole("alert").textContent).toContain("answer_invalid");
    expect(within(card()).getByLabelText<HTMLInputElement>("Bread").checked).toBe(true);
    fireEvent.click(button("Answer", card()));
    await tell(() => undefined);
    expect(screen.queryByRole("alert")).toBeNull();
    await tell(() => core.tell("saying", { saying: { ...answer, key: "ans_2", state: "refused", code: "not_participant" } }));
    expect(screen.getByRole("alert").textContent).toContain("not_participant");
    expect(core.asks("answer")).toHaveLength(2);
    expect(log().querySelectorAll("[data-saying]")).toHaveLength(0);
  });

  test("Escape dismisses, an own label accepts or declines", async () => {
    await ready(confirm());
    fireEvent.keyDown(button("Do it", card()), { key: "Escape" });
    await tell(() => undefined);
    expect(core.asks("answer")).toMatchObject([{ value: null }]);
    startOver();
    await ready(confirm());
    fireEvent.click(button("Leave it", card()));
    expect(core.asks("answer")).toMatchObject([{ value: "declined" }]);
  });

  test("declined, dismissed and not answered in time are different things, and none is an error", async () => {
    await ready(confirm({ state: "success", value: "declined" }));
    expect(card().textContent).toContain("Declined");
    expect(within(card()).getByLabelText<HTMLInputElement>("Leave it").checked).toBe(true);
    for (const [state, words] of [["dismissed", "Dismissed"], ["timeout", "Nobody answered in time"]] as const) {
      await tell(() => core.message(question(confirm({ state }), 1)));
      expect(card().textContent).toContain(words);
      expect(card().querySelector(":checked")).toBeNull();
      expect(card().textContent).toContain("Do it");
    }
    expect(screen.queryByRole("alert")).toBeNull();
  });

  test("[L182] an answer goes to the conversation of its question, whatever is open by then", async () => {
    await ready(ask());
    const later = new Later();
    core.answers.set("answer", () => later.promise);
    fireEvent.click(within(card()).getByLabelText("Bread"));
    fireEvent.click(button("Answer", card()));
    fireEvent.click(button(/Garden/));
    await tell(() => core.snapshot({}, "conv_b"));
    await tell(() => later.refuse("connection_lost"));
    expect(core.asks("answer")).toMatchObject([{ conversation_id: ROOT }]);
    expect(screen.queryByRole("alert")).toBeNull();
    expect(log().textContent).toBe("");
  });

  const reply = (more: Partial<Block>): Block => ({
    ...{ id: "reply", type: "human_reply", question_id: "msg_0", kind: "ask", question: "What to buy?", choices: CHOICES },
    ...{ dismissed: false, value: "b", label: "Bread" },
    ...more,
  });
  const replied = async (more: Partial<Block> = {}) => {
    show();
    await tell(() => core.snapshot({ messages: [message(4, { actor: PERSON, purpose: "answer", blocks: [reply(more)] })] }));
    return log().querySelector<HTMLElement>(".reply-card") as HTMLElement;
  };

  test("[L186] a reply needs no question to be shown", async () => {
    const shown = await replied();
    const chosen = within(shown).getByRole<HTMLInputElement>("radio", { name: "Bread" });
    expect([chosen.checked, chosen.disabled]).toEqual([true, true]);
    expect(within(shown).getByRole("link").getAttribute("href")).toBe("#message-msg_0");
    expect(shown.querySelector("button, textarea")).toBeNull();
    expect(core.asks("questions.get")).toEqual([]);
  });

  test("[L188] one's own words are only read, a dismissed reply selects nothing, an open question can be typed into", async () => {
    const words = await replied({ choices: [], value: "olives", label: "olives" });
    expect(words.textContent).toContain("olives");
    expect(words.querySelector("textarea")).toBeNull();
    cleanup();
    const dismissed = await replied({ dismissed: true, value: null, label: null });
    expect(dismissed.querySelector("input")).toBeNull();
    expect(dismissed.textContent).toContain("Dismissed");
    cleanup();
    await ready(ask({ choices: [] }));
    expect(within(card()).getByRole("textbox")).toBeTruthy();
    await tell(() => core.message(question(ask({ choices: [], state: "success", value: "olives" }), 1)));
    expect(card().textContent).toContain("olives");
    expect(within(card()).queryByRole("textbox")).toBeNull();
  });

  test("[L189] a plain message that replies to a question is plain", async () => {
    show();
    await tell(() => core.snapshot({ messages: [question(ask()), said(4, "Bread", { reply_to_id: "msg_3" })] }));
    expect(log().querySelectorAll(".card, .reply-card")).toHaveLength(1);
    expect(card().dataset["state"]).toBe("pending");
  });

  test.each([
    ["not a list", { choices: "ab" }],
    ["not objects", { choices: ["a"] }],
    ["no labels", { choices: [{ value: "a" }] }],
    ["a value twice", { choices: [...CHOICES, ...CHOICES] }],
    ["no text", { text: 7 }],
    ["an unknown state", { state: "maybe" }],
    ["a confirmation with one choice", { type: "confirm", choices: [CHOICES[0] as never] }],
  ])("[L191] a card that cannot be read says so: %s", async (_, broken) => {
    show();
    await tell(() => core.snapshot({ messages: [question(ask(broken as Partial<Block>)), message(5)] }));
    expect(log().textContent).toContain("This card cannot be displayed.");
    expect(log().textContent).toContain("message 5");
    expect(log().querySelector("form, input")).toBeNull();
  });
});
