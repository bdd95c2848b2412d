// @vitest-environment jsdom
// What an app leaves in the conversation after an operation, and how its codes are said.

import { act } from "@testing-library/react";
import type { Block } from "@lineloop/ui-model";
import { describe, expect, test } from "vitest";
import { language } from "../../src/i18n/index.ts";
import { message } from "./fake-core.ts";
import { core, eachInItsOwnPage, log, show, tell } from "./page.tsx";

eachInItsOwnPage();

const SENTENCE = "Pomodoro “tea”: interrupted, 0 min 4 s";
const record = (more: Partial<Block> = {}): Block => ({
  ...{ id: "record", type: "record", app_scope: "pomodoro", title: "Pomodoro", params: { label: "tea", minutes: 25 } },
  ...{ outcome: "interrupted", reason: "interrupted_by_agent", elapsed_ms: 4_200, duration_ms: 1_500_000 },
  ...more,
});
const said = async (blocks: readonly Block[], meta: object = { record: "pomodoro" }) => {
  const one = message(3, { actor: { kind: "runtime", key: "device" }, blocks: [{ id: "said", type: "text", content: SENTENCE }, ...blocks] });
  show();
  await tell(() => core.snapshot({ messages: [{ ...one, content: { ...one.content, meta: meta as never } }] }));
  return log().querySelector<HTMLElement>(".block-record");
};

describe("a record", () => {
  test("says which app, what for, how it ended and how long it was; its sentence is not said twice", async () => {
    const card = await said([record()]);
    expect(card?.textContent).toContain("tea");
    expect(card?.textContent).toContain("Pomodoro");
    expect(card?.textContent).toContain("ended early · stopped in the chat");
    expect(card?.textContent).toContain("4 sec of 25 min");
    expect(log().textContent).not.toContain(SENTENCE);
  });

  test("speaks the person's language", async () => {
    const card = await said([record({ outcome: "completed", reason: "", elapsed_ms: 1_500_000 })]);
    act(() => language.set("zh"));
    expect(card?.textContent).toContain("已完成");
    expect(card?.textContent).toContain("25分钟");
    act(() => language.set("en"));
    expect(card?.textContent).toContain("completed");
    expect(card?.textContent).toContain("25 min");
    expect(card?.textContent).not.toContain(" of ");
  });

  test("without a label it has the app's name, and a code without words is shown readable", async () => {
    const card = await said([record({ params: {}, outcome: "ran_dry", reason: "no_water" })]);
    expect(card?.querySelector("strong")?.textContent).toBe("Pomodoro");
    expect(card?.querySelector(".record-app")).toBeNull();
    expect(card?.textContent).toContain("ran dry · no water");
  });

  test("that cannot be read says so and hides nothing", async () => {
    expect(await said([record({ title: 7 })])).toBeNull();
    expect(log().textContent).toContain("This card cannot be displayed.");
    expect(log().textContent).toContain(SENTENCE);
  });

  test("of another app than the message names takes no words away", async () => {
    await said([record()], { record: "notes" });
    expect(log().textContent).toContain(SENTENCE);
  });
});
