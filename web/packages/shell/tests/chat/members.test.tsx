// @vitest-environment jsdom
// Who takes part: seen by all, changed by the owner, left by the others.

import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { beforeAll, expect, test } from "vitest";
import { ASSISTANT, PERSON, ROOT, chatState, refusal } from "./fake-core.ts";
import { button, core, eachInItsOwnPage, show, tell } from "./page.tsx";

eachInItsOwnPage();
beforeAll(() => import("../../src/chat/view/members.tsx"));

const member = (actor: object, owner = false) => ({ ...actor, owner, display_name: null });
const open = async () => {
  show();
  await tell(() => core.snapshot());
  fireEvent.click(button("What can be done with this conversation"));
  fireEvent.click(screen.getByRole("menuitem", { name: "Who takes part" }));
  await screen.findByRole("dialog", { name: "Who takes part" });
  await act(async () => undefined);
};
const rows = () => within(screen.getByRole("list", { name: "Who takes part" })).getAllByRole("listitem").map((row) => row.textContent);

test("[L303] the owner brings in agents and people and takes them out; failures are said", async () => {
  const mia = { kind: "operator", key: "mia", display_name: "Mia's helper", description: "", online: true };
  core.state.set(chatState({ recipients: [...chatState().recipients, mia] }));
  core.answers.set("participants.list", () => ({ items: [member(ASSISTANT), member({ kind: "runtime", key: "laptop" }), member(PERSON, true)] }));
  await open();
  expect(rows()).toEqual(["Youowner", "AssistantagentTake out", "Device …laptopwith its person"]);
  await act(async () => fireEvent.click(button("Mia's helper")));
  expect(core.asks("invite")).toEqual([{ conversation_id: ROOT, participant: { kind: "operator", key: "mia" } }]);
  fireEvent.change(screen.getByRole("textbox", { name: "Name on this server" }), { target: { value: " kim " } });
  await act(async () => fireEvent.submit(screen.getByRole("textbox", { name: "Name on this server" })));
  expect(core.asks("invite").at(-1)).toEqual({ conversation_id: ROOT, participant: { kind: "user", key: "kim" } });
  core.answers.set("take_out", () => Promise.reject(refusal("connection_lost")));
  await act(async () => fireEvent.click(button("Take out Assistant")));
  expect(screen.getByRole("alert").textContent).toContain("connection_lost");
  fireEvent.keyDown(screen.getByRole("dialog"), { key: "Escape" });
  expect(screen.queryByRole("dialog")).toBeNull();
});

test("whoever does not own it sees no buttons but the one to leave", async () => {
  core.answers.set("participants.list", () => ({ items: [member({ kind: "user", key: "mia" }, true), member(PERSON), member(ASSISTANT)] }));
  await open();
  expect(rows()).toEqual(["miaowner", "YoupersonLeave", "Assistantagent"]);
  expect(screen.queryByText("Bring in")).toBeNull();
  await act(async () => fireEvent.click(button("Leave")));
  expect(core.asks("take_out")).toEqual([{ conversation_id: ROOT, participant: PERSON }]);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});
