// The transcript: pages of rows, held at the end while one is there, and held in place while older ones come in above.
// Only the pages around what is seen stand in the document.

import { ArrowDown } from "lucide-react";
import { memo, useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";
import { useForms, useText } from "../../i18n/index.ts";
import { useStore } from "../../runtime/store.ts";
import type { Page, Row } from "../model/rows.ts";
import type { Transcript } from "../model/transcript.ts";
import { readable } from "../model/wire.ts";
import { RowView } from "./message-row.tsx";
import { useWindow, type Window } from "./windowing.ts";

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
  const window = useWindow(scroller, inner, pages);
  const { atEnd, toEnd, onScroll } = useScrolling(scroller, inner, transcript, pages, window);

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
        data-rows={pages.reduce((sum, page) => sum + page.rows.length, 0)}
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
          {pages.map((page, index) =>
            window.isThere(index) ? (
              <PageView
                key={page.key}
                page={page}
                before={pages[index - 1]?.rows.at(-1) ?? null}
                selectedId={page.rows.some((row) => row.id === selectedId) ? selectedId : null}
                measure={window.measure}
              />
            ) : (
              <PageAway key={page.key} page={page} height={window.heightOf(page)} transcript={transcript} />
            ),
          )}
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
  readonly measure: Window["measure"];
}

const PageView = memo(
  function PageView({ page, before, selectedId, measure }: PageProps) {
    return (
      <div ref={measure} className="page" data-page={page.key}>
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

/** Of a row of a page that is not there so much is found by the browser's search in the page. */
const FOUND_CHARS = 2_000;

interface AwayProps {
  readonly page: Page;
  readonly height: number;
  readonly transcript: Transcript;
}

/** A page that is not seen: its place, and its words for the search in the page. */
const PageAway = memo(function PageAway({ page, height, transcript }: AwayProps) {
  const words = page.rows
    .map((row) => transcript.messages.get(row.id))
    .map((message) => (message === undefined ? "" : readable(message.content).slice(0, FOUND_CHARS)))
    .join("\n");
  const put = useCallback(
    (element: HTMLElement | null) => {
      element?.setAttribute("hidden", "until-found");
      element?.style.setProperty("height", `${height}px`);
    },
    [height],
  );
  return (
    <div ref={put} className="page page-away" data-page={page.key}>
      {words}
    </div>
  );
});

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
  window: Window,
) {
  const { look, from, to } = window;
  const [atEnd, setAtEnd] = useState(true);
  const stuck = useRef(true);
  const lastTop = useRef(0);
  const pressed = useRef(false);
  const anchor = useRef<Anchor | null>(null);

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
    setAtEnd(true);
    look(true);
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

  return { atEnd, toEnd, onScroll };
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
