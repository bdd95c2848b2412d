// @vitest-environment jsdom
// Conversations are renamed, archived, found, and tell what is new.

import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { beforeAll, expect, test } from "vitest";
import { ROOT, chatState, message, refusal, stamp } from "./fake-core.ts";
import { button, core, eachInItsOwnPage, log, opened, show, tell } from "./page.tsx";

eachInItsOwnPage();
// Fetched by a page when it is wanted first.
beforeAll(() => import("../../src/chat/view/search.tsx"));

const menu = () => button("What can be done with this conversation");
const choose = (name: string) => {
  fireEvent.click(menu());
  fireEvent.click(screen.getByRole("menuitem", { name }));
};
const found = () => within(screen.getByRole("listbox")).queryAllByRole("option");
const rows = (archived: boolean) => chatState().conversations.map((row) => ({ ...row, archived_at: archived && row.id === ROOT ? stamp(9) : null }));

test("the name is changed where it stands: Enter keeps it, Escape the old one, and the focus returns", async () => {
  show();
  await tell(() => core.snapshot());
  choose("Rename");
  const name = () => screen.getByRole("textbox", { name: "Name of the conversation" });
  expect(document.activeElement).toBe(name());
  fireEvent.change(name(), { target: { value: "  Shed door " } });
  fireEvent.keyDown(name(), { key: "Enter" });
  expect(core.asks("rename")).toEqual([{ conversation_id: ROOT, name: "Shed door" }]);
  expect(document.activeElement).toBe(menu());
  fireEvent.keyDown(document, { key: "F2" });
  fireEvent.change(name(), { target: { value: "No" } });
  fireEvent.keyDown(name(), { key: "Escape" });
  expect(core.asks("rename")).toHaveLength(1);
  expect(screen.queryByRole("textbox", { name: "Name of the conversation" })).toBeNull();
  core.answers.set("rename", () => Promise.reject(refusal("connection_lost")));
  choose("Rename");
  fireEvent.change(name(), { target: { value: "Later" } });
  await act(async () => fireEvent.blur(name()));
  expect(screen.getByRole("alert").textContent).toContain("connection_lost");
});

test("the menu is used by the keyboard and closes by Escape", async () => {
  show();
  await tell(() => core.snapshot());
  fireEvent.keyDown(menu(), { key: "ArrowDown" });
  const items = () => screen.getAllByRole("menuitem");
  expect(document.activeElement).toBe(items()[0]);
  fireEvent.keyDown(items()[0] as HTMLElement, { key: "ArrowUp" });
  expect(document.activeElement).toBe(items().at(-1));
  fireEvent.keyDown(document.activeElement as HTMLElement, { key: "Escape" });
  expect(screen.queryByRole("menu")).toBeNull();
  expect(document.activeElement).toBe(menu());
});

test("[L301] an archived conversation stands in a list of its own and says how it comes back", async () => {
  show();
  await tell(() => core.snapshot());
  const list = screen.getByRole("navigation", { name: "Conversations" });
  expect(within(list).queryByRole("button", { name: /^Archived/ })).toBeNull();
  choose("Archive");
  await act(async () => undefined);
  expect(core.asks("archive")).toEqual([{ conversation_id: ROOT, archived: true }]);
  await tell(() => core.state.set(chatState({ conversations: rows(true) })));
  expect(within(list).queryByRole("button", { name: /Report/ })).toBeNull();
  expect(screen.getByText(/What is written here brings it back/)).toBeTruthy();
  fireEvent.click(button(/^Archived/, list));
  expect(button(/Report/, list)).toBeTruthy();
  await act(async () => fireEvent.click(button("Bring back")));
  expect(core.asks("archive").at(-1)).toEqual({ conversation_id: ROOT, archived: false });
  await tell(() => core.state.set(chatState({ conversations: rows(false) })));
  expect(within(list).getByRole("heading").textContent).toBe("Conversations");
});

test("a search finds titles at once and words when one pauses, marks them, and opens at the message", async () => {
  show();
  await tell(() => core.snapshot());
  const hit = (id: string, conversation_id: string) => ({
    message_id: id,
    conversation_id,
    root_id: "conv_b",
    conversation_name: "Garden",
    archived: false,
    created_at: stamp(3),
    snippet: [{ text: "the ", hit: false }, { text: "shed", hit: true }, { text: " door", hit: false }],
  });
  core.answers.set("messages.search", () => ({ items: [hit("msg_work", "conv_work"), hit("msg_1", "conv_b")], next: null }));
  fireEvent.keyDown(document, { key: "k", ctrlKey: true });
  const words = await screen.findByRole("combobox", { name: "Find conversations and messages" });
  for (const text of ["g", "ga", "gar"]) fireEvent.change(words, { target: { value: text } });
  expect(found().map((one) => one.textContent)).toEqual([expect.stringContaining("Garden")]);
  // What was worked out and then said is shown once, where it was said.
  await waitFor(() => expect(found()).toHaveLength(2));
  expect(core.asks("messages.search")).toEqual([{ words: "gar", limit: 20 }]);
  expect(document.querySelector("mark")?.textContent).toBe("shed");
  fireEvent.keyDown(words, { key: "ArrowDown" });
  expect(words.getAttribute("aria-activedescendant")).toBe(found()[1]?.id);
  fireEvent.keyDown(words, { key: "Enter" });
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(opened).toEqual(["conv_b"]);
  let sought: Element | null = null;
  Element.prototype.scrollIntoView = function scrollIntoView(this: Element) {
    sought = this;
  };
  await tell(() => core.snapshot({ messages: [message(1, { id: "msg_1", conversation_id: "conv_b" })] }, "conv_b"));
  await tell(() => undefined);
  expect(log().textContent).toContain("message 1");
  await waitFor(() => expect(sought).not.toBeNull());
});

test("a search without a server says so and still finds titles", async () => {
  show();
  core.answers.set("messages.search", () => Promise.reject(refusal("connection_lost")));
  fireEvent.click(button("Find conversations and messages"));
  fireEvent.change(await screen.findByRole("combobox", { name: "Find conversations and messages" }), { target: { value: "gard" } });
  await screen.findByText("Messages cannot be searched just now.");
  expect(found()).toHaveLength(1);
});

test("a line stands above what others said since one was here, and stays while one reads on", async () => {
  const conversations = chatState().conversations.map((row) => (row.id === ROOT ? { ...row, unread: 1, read_ordinal: 2 } : row));
  core.state.set(chatState({ conversations }));
  show();
  const mine = message(3, { actor: { kind: "user", key: "local" } });
  await tell(() => core.snapshot({ messages: [message(1), message(2), mine, message(4)] }));
  expect(log().textContent).toMatch(/message 2.*message 3.*New.*message 4/s);
  await tell(() => {
    core.state.set(chatState());
    core.message(message(5));
  });
  expect(log().textContent?.match(/New/g)).toHaveLength(1);
});

test("[L304] a conversation is saved as a file of either kind", async () => {
  const fetched: string[] = [];
  HTMLAnchorElement.prototype.click = function click(this: HTMLAnchorElement) {
    fetched.push(new URL(this.href).pathname);
  };
  show();
  await tell(() => core.snapshot());
  choose("Save as Markdown");
  await act(async () => undefined);
  choose("Save as JSON");
  await act(async () => undefined);
  expect(core.asks("export")).toEqual([
    { conversation_id: ROOT, format: "markdown" },
    { conversation_id: ROOT, format: "json" },
  ]);
  expect(fetched).toEqual(["/download/markdown", "/download/json"]);
});
