// The chat in a page without a browser, and how a person uses it.

import { act, cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { useState } from "react";
import { afterEach, beforeAll, beforeEach } from "vitest";
import { loadMarkdown } from "../../src/chat/blocks/lazy-markdown.tsx";
import { Chat } from "../../src/chat/index.tsx";
import { FakeCore, ROOT } from "./fake-core.ts";

HTMLDialogElement.prototype.showModal ??= function showModal(this: HTMLDialogElement) {
  this.open = true;
};

HTMLDialogElement.prototype.close ??= function close(this: HTMLDialogElement) {
  this.open = false;
};

/** The Runtime of the test that runs now. */
export let core: FakeCore;
/** The conversations that the person opened. */
export const opened: string[] = [];

export function Page({ first, docked = false }: { readonly first: string | null; readonly docked?: boolean }) {
  const [id, setId] = useState(first);
  const open = (next: string) => {
    opened.push(next);
    setId(next);
  };
  return <Chat core={core} docked={docked} conversationId={id} onConversation={open} />;
}

export const show = (first: string | null = ROOT) => render(<Page first={first} />);

/** Takes the page away and gives the next one a Runtime of its own. */
export function startOver(): void {
  cleanup();
  core = new FakeCore();
}

/** Something happens, and the frame after it is drawn. */
export const tell = (work: () => void) =>
  act(async () => {
    work();
    await new Promise((resolve) => requestAnimationFrame(() => resolve(undefined)));
  });

export const field = () => screen.getByRole<HTMLTextAreaElement>("textbox", { name: "Write a message" });
export const write = (text: string) => fireEvent.change(field(), { target: { value: text } });
export const press = (key: string, more: object = {}) => fireEvent.keyDown(field(), { key, ...more });
export const log = () => screen.getByRole("log");
export const button = (name: string | RegExp, place: HTMLElement = document.body) =>
  within(place).getByRole("button", { name });

/** Each test has its own Runtime and an empty page. */
export function eachInItsOwnPage(): void {
  beforeEach(() => {
    core = new FakeCore();
    opened.length = 0;
    localStorage.clear();
  });
  afterEach(cleanup);
  beforeAll(loadMarkdown);
}
