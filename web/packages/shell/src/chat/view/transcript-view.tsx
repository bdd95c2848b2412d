// The transcript: pages of rows, held at the end while one is there, and held in place while older ones come in above.

import { ArrowDown } from "lucide-react";
import { memo, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";
import { useForms, useText } from "../../i18n/index.ts";
import { useStore } from "../../runtime/store.ts";
import type { Page, Row } from "../model/rows.ts";
import type { Transcript } from "../model/transcript.ts";
import { RowView } from "./message-row.tsx";

const NEAR_END_PX = 64;
const FETCH_WITHIN_PX = 900;
const JOINED_WITHIN_MS = 5 * 60 * 1000;

export interface TranscriptViewProps {
  readonly transcript: Transcript;
  readonly selectedId: string | null;
  /** Grows each time the person said something: then the end is shown. */
  readonly said: number;
  /** Whether the newest message is in sight. */
  readonly onAtEnd: (atEnd: boolean) => void;
}

export function TranscriptView({ transcript, selectedId, said, onAtEnd }: TranscriptViewProps) {
  const t = useText();
  const { pages, older, phase } = useStore(transcript.view);
  const scroller = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const { atEnd, toEnd, onScroll } = useScrolling(scroller, inner, transcript, pages);

  useEffect(() => onAtEnd(atEnd), [atEnd, onAtEnd]);
  useEffect(() => {
    if (said > 0) toEnd();
  }, [said, toEnd]);

  return (
    <div className="transcript-frame">
      <div
        ref={scroller}
        className="transcript"
        role="log"
        aria-live="off"
        aria-busy={phase === "loading"}
        aria-label={t("chat.transcript")}
        tabIndex={0}
        onScroll={onScroll}
      >
        <div ref={inner} className="transcript-inner">
          {older === "failed" ? (
            <button type="button" className="button quiet small older" onClick={() => void transcript.loadOlder()}>
              {t("chat.older_failed")}
            </button>
          ) : (
            <p className="older" data-state={older}>
              {older === "loading" ? t("chat.older_loading") : ""}
            </p>
          )}
          {pages.map((page, index) => (
            <PageView
              key={page.key}
              page={page}
              before={pages[index - 1]?.rows.at(-1) ?? null}
              selectedId={page.rows.some((row) => row.id === selectedId) ? selectedId : null}
            />
          ))}
        </div>
      </div>
      {atEnd ? null : (
        <button type="button" className="to-end" onClick={toEnd} aria-label={t("chat.to_end")} title={t("chat.to_end")}>
          <ArrowDown size={17} aria-hidden />
        </button>
      )}
    </div>
  );
}

interface PageProps {
  readonly page: Page;
  readonly before: Row | null;
  readonly selectedId: string | null;
}

const PageView = memo(
  function PageView({ page, before, selectedId }: PageProps) {
    return (
      <div className="page">
        {page.rows.map((row, index) => {
          const previous = index === 0 ? before : (page.rows[index - 1] ?? null);
          const newDay = previous === null || !sameDay(previous.at, row.at);
          const close = previous !== null && previous.speaker === row.speaker && row.at - previous.at < JOINED_WITHIN_MS;
          return (
            <div key={row.key} className="row-slot" data-joined={!newDay && close}>
              {newDay ? <Day at={row.at} /> : null}
              <RowView row={row} joined={!newDay && close} selected={row.id === selectedId} />
            </div>
          );
        })}
      </div>
    );
  },
  (one, other) =>
    one.page === other.page && one.before?.id === other.before?.id && one.selectedId === other.selectedId,
);

function Day({ at }: { readonly at: number }) {
  const forms = useForms();
  return (
    <p className="day">
      <span>{forms.day(at, Date.now())}</span>
    </p>
  );
}

const sameDay = (one: number, other: number): boolean => new Date(one).toDateString() === new Date(other).toDateString();

function useScrolling(
  scroller: RefObject<HTMLDivElement | null>,
  inner: RefObject<HTMLDivElement | null>,
  transcript: Transcript,
  pages: readonly Page[],
) {
  const [atEnd, setAtEnd] = useState(true);
  const stuck = useRef(true);
  const lastTop = useRef(0);
  const pressed = useRef(false);
  const anchor = useRef<{ readonly element: Element; readonly top: number } | null>(null);

  const [hold] = useState(() => (element: HTMLElement) => {
    if (pressed.current) return;
    element.scrollTop = element.scrollHeight;
    lastTop.current = element.scrollTop;
  });
  const [toEnd] = useState(() => () => {
    stuck.current = true;
    setAtEnd(true);
    if (scroller.current !== null) hold(scroller.current);
  });

  const [onScroll] = useState(() => () => {
    const element = scroller.current;
    if (element === null) return;
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
    window.addEventListener("pointerup", release);
    window.addEventListener("pointercancel", release);
    return () => {
      element.removeEventListener("pointerdown", press);
      window.removeEventListener("pointerup", release);
      window.removeEventListener("pointercancel", release);
    };
  }, [scroller, hold]);

  // What grows while one is at the end pushes the view along: observed after layout, before anything is painted.
  useEffect(() => {
    const [element, content] = [scroller.current, inner.current];
    if (element === null || content === null || typeof ResizeObserver === "undefined") return;
    const observer = new ResizeObserver(() => {
      if (stuck.current) hold(element);
    });
    observer.observe(content);
    observer.observe(element);
    return () => observer.disconnect();
  }, [scroller, inner, hold]);

  // What comes in above leaves what one reads where it is, whether or not the browser anchors by itself.
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    if (stuck.current) {
      hold(element);
      return;
    }
    const kept = anchor.current;
    if (kept?.element.isConnected) element.scrollTop += kept.element.getBoundingClientRect().top - kept.top;
  }, [pages, scroller, hold]);

  return { atEnd, toEnd, onScroll };
}

function firstInSight(scroller: HTMLElement): { readonly element: Element; readonly top: number } | null {
  const edge = scroller.getBoundingClientRect().top;
  for (const page of scroller.querySelectorAll(".page")) {
    if (page.getBoundingClientRect().bottom <= edge) continue;
    for (const element of page.children) {
      const box = element.getBoundingClientRect();
      if (box.bottom > edge) return { element, top: box.top };
    }
  }
  return null;
}
