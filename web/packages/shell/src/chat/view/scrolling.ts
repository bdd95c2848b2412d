// How a transcript scrolls: held at the end while one is there, held in place while others come in above, and brought to
// a message that one goes to.

import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";
import { rowIdOf } from "../blocks/reply-card.tsx";
import type { Page } from "../model/rows.ts";
import type { Transcript } from "../model/transcript.ts";
import type { Window } from "./windowing.ts";

const NEAR_END_PX = 64;
const FETCH_WITHIN_PX = 900;
/** So long the row that one went to stands out; talk.css lets it fade within. */
const FOUND_MS = 1_600;

export function useScrolling(
  scroller: RefObject<HTMLDivElement | null>,
  inner: RefObject<HTMLDivElement | null>,
  transcript: Transcript,
  pages: readonly Page[],
  window: Window,
) {
  const { show, from, to } = window;
  const [atEnd, setAtEnd] = useState(true);
  const [goal, setGoal] = useState<string | null>(null);
  const stuck = useRef(true);
  const lastTop = useRef(0);
  const pressed = useRef(false);
  const anchor = useRef<Anchor | null>(null);
  // Until one is where one goes, where one was counts for nothing.
  const going = useRef(false);
  const look = useCallback(
    (isAtEnd: boolean) => {
      if (!going.current) window.look(isAtEnd);
    },
    [window.look],
  );

  const [hold] = useState(() => (element: HTMLElement) => {
    if (pressed.current) return;
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  });
  const [keep] = useState(() => (element: HTMLElement) => {
    const moved = movedBy(element, anchor.current);
    if (Math.abs(moved) < 1 || pressed.current) return;
    element.scrollTop += moved;
    anchor.current = firstInSight(element);
    lastTop.current = element.scrollTop;
  });
  const [toEnd] = useState(() => () => {
    stuck.current = true;
    going.current = false;
    setGoal(null);
    setAtEnd(true);
    look(true);
    if (scroller.current !== null) hold(scroller.current);
  });

  const [onScroll] = useState(() => () => {
    const element = scroller.current;
    if (element === null || going.current) return;
    const wentUp = element.scrollTop < lastTop.current;
    lastTop.current = element.scrollTop;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END_PX;
    // A keyboard, or rows that got their size, move the end away from under one: only going up leaves it.
    if (stuck.current && !isAtEnd && !wentUp) {
      hold(element);
      return;
    }
    stuck.current = isAtEnd;
    setAtEnd(isAtEnd);
    anchor.current = isAtEnd ? null : firstInSight(element);
    look(isAtEnd);
    if (element.scrollTop < FETCH_WITHIN_PX) void transcript.loadOlder();
  });

  // While somebody presses, nothing moves away from under the pointer: the click would hit something else, or nothing.
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const press = () => {
      pressed.current = true;
    };
    const release = () => {
      if (!pressed.current) return;
      requestAnimationFrame(() => {
        pressed.current = false;
        if (stuck.current) hold(element);
      });
    };
    element.addEventListener("pointerdown", press);
    globalThis.addEventListener("pointerup", release);
    globalThis.addEventListener("pointercancel", release);
    return () => {
      element.removeEventListener("pointerdown", press);
      globalThis.removeEventListener("pointerup", release);
      globalThis.removeEventListener("pointercancel", release);
    };
  }, [scroller, hold]);

  // What grows while one is at the end pushes the view along: observed after layout, before anything is painted.
  useEffect(() => {
    const [element, content] = [scroller.current, inner.current];
    if (element === null || content === null || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => {
      if (stuck.current) hold(element);
      else {
        keep(element);
        look(false);
      }
    });
    observer.observe(content);
    observer.observe(element);
    return () => observer.disconnect();
  }, [scroller, inner, hold, keep, look]);

  // What comes in above leaves what one reads where it is.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    if (stuck.current) {
      // The observer does it without a layout of its own; where there is none, now.
      if (typeof ResizeObserver === "undefined") hold(element);
      return;
    }
    keep(element);
  }, [pages, from, to, scroller, hold, keep]);
  // There is more, or the older ones are there: which of them stand here now, and whether more are wanted.
  useEffect(() => {
    const element = scroller.current;
    if (element === null || stuck.current) return;
    look(false);
    if (element.scrollTop < FETCH_WITHIN_PX) void transcript.loadOlder();
  }, [pages, scroller, transcript, look]);

  // Where one goes is drawn first, and then brought into sight.
  const [goTo] = useState(() => (messageId: string | null) => {
    stuck.current = false;
    anchor.current = null;
    going.current = messageId !== null;
    setGoal(messageId);
    if (messageId === null && scroller.current !== null) scroller.current.scrollTop = 0;
  });
  useEffect(() => {
    if (goal === null) return;
    const page = pages.find((one) => one.rows.some((row) => row.id === goal));
    const row = document.getElementById(rowIdOf(goal));
    if (page !== undefined && row === null) return show(page.key);
    setGoal(null);
    if (row !== null) bring(row);
    going.current = false;
    look(false);
  }, [goal, pages, from, to, show, look]);

  return { atEnd, toEnd, goTo, onScroll };
}

/** The keyboard goes along, and one sees which it is. */
function bring(row: HTMLElement): void {
  row.scrollIntoView({ block: "center" });
  row.tabIndex = -1;
  row.focus({ preventScroll: true });
  row.toggleAttribute("data-found", true);
  setTimeout(() => row.removeAttribute("data-found"), FOUND_MS);
}

/** What one reads, and where in the transcript it stood; its page, should the row be another element by then. */
interface Anchor {
  readonly row: Element | null;
  readonly rowTop: number;
  readonly page: string;
  readonly pageTop: number;
}

function movedBy(scroller: HTMLElement, anchor: Anchor | null): number {
  if (anchor === null) return 0;
  if (anchor.row?.isConnected) return placeOf(scroller, anchor.row) - anchor.rowTop;
  const page = scroller.querySelector(`[data-page="${CSS.escape(anchor.page)}"]`);
  return page === null ? 0 : placeOf(scroller, page) - anchor.pageTop;
}

/** However far the person has scrolled since. */
const placeOf = (scroller: HTMLElement, element: Element): number =>
  element.getBoundingClientRect().top + scroller.scrollTop;

function firstInSight(scroller: HTMLElement): Anchor | null {
  const edge = scroller.getBoundingClientRect().top;
  for (const page of scroller.querySelectorAll<HTMLElement>(".page")) {
    const box = page.getBoundingClientRect();
    if (box.bottom <= edge) continue;
    const rows = [...page.children];
    const row = rows.find((one) => one.getBoundingClientRect().bottom > edge) ?? null;
    const rowTop = row === null ? 0 : placeOf(scroller, row);
    return { row, rowTop, page: page.dataset["page"] ?? "", pageTop: placeOf(scroller, page) };
  }
  return null;
}
