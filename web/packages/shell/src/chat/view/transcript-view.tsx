// The transcript: pages of rows, held at the end while one is there, and held in place while older ones come in above.
// Only the pages around what is seen stand in the document.

import { ArrowDown } from "lucide-react";
import { memo, useCallback, useEffect, useImperativeHandle, useRef, type ClipboardEvent, type Ref } from "react";
import { useForms, useText } from "../../i18n/index.ts";
import { useStore } from "../../runtime/store.ts";
import type { Page, Row } from "../model/rows.ts";
import type { Transcript } from "../model/transcript.ts";
import { readable } from "../model/wire.ts";
import { markedWords } from "./marked.ts";
import { RowView } from "./message-row.tsx";
import { useScrolling } from "./scrolling.ts";
import { useWindow, type Window } from "./windowing.ts";

const JOINED_WITHIN_MS = 5 * 60 * 1000;

export interface TranscriptHandle {
  /** A message that was fetched is brought into sight; null: as far as one came. */
  goTo(messageId: string | null): void;
}

export interface TranscriptViewProps {
  readonly ref?: Ref<TranscriptHandle>;
  readonly transcript: Transcript;
  readonly selectedId: string | null;
  /** The first message that was new when this was opened. */
  readonly newId: string | null;
  /** Grows each time the person said something: then the end is shown. */
  readonly said: number;
  /** Whether the newest message is in sight. */
  readonly onAtEnd: (atEnd: boolean) => void;
}

export function TranscriptView({ ref, transcript, selectedId, newId, said, onAtEnd }: TranscriptViewProps) {
  const t = useText();
  const { pages, older, phase } = useStore(transcript.view);
  const scroller = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const window = useWindow(scroller, inner, pages);
  const { atEnd, toEnd, goTo, onScroll } = useScrolling(scroller, inner, transcript, pages, window);
  useImperativeHandle(ref, () => ({ goTo }), [goTo]);

  useEffect(() => onAtEnd(atEnd), [atEnd, onAtEnd]);
  useEffect(() => {
    if (said > 0) toEnd();
  }, [said, toEnd]);

  const copy = (event: ClipboardEvent<HTMLElement>) => {
    const words = markedWords(event.currentTarget, pages, (id) => wordsOf(transcript, id));
    if (words === null) return;
    event.preventDefault();
    event.clipboardData.setData("text/plain", words);
  };

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
        onCopy={copy}
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
                newId={page.rows.some((row) => row.id === newId) ? newId : null}
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
  readonly newId: string | null;
  readonly measure: Window["measure"];
}

const PageView = memo(
  function PageView({ page, before, selectedId, newId, measure }: PageProps) {
    return (
      <div ref={measure} className="page" data-page={page.key}>
        {page.rows.map((row, index) => {
          const previous = index === 0 ? before : (page.rows[index - 1] ?? null);
          const newDay = previous === null || !sameDay(previous.at, row.at);
          const close = previous !== null && previous.speaker === row.speaker && row.at - previous.at < JOINED_WITHIN_MS;
          return (
            <div key={row.key} className="row-slot" data-joined={!newDay && close}>
              {newDay ? <Day at={row.at} /> : null}
              {row.id === newId ? <NewLine /> : null}
              <RowView row={row} joined={!newDay && close} selected={row.id === selectedId} />
            </div>
          );
        })}
      </div>
    );
  },
  (one, other) =>
    one.page === other.page && one.before?.id === other.before?.id && one.selectedId === other.selectedId && one.newId === other.newId,
);

/** The words of a row: of a message, or of what is on its way to be one. */
function wordsOf(transcript: Transcript, id: string): string {
  const message = transcript.messages.get(id);
  return message === undefined ? (transcript.sayings.get(id)?.text ?? "") : readable(message.content);
}

/** Of a row of a page that is not there so much is found by the browser's search in the page. */
const FOUND_CHARS = 2_000;

interface AwayProps {
  readonly page: Page;
  readonly height: number;
  readonly transcript: Transcript;
}

/** A page that is not seen: its place, and its words for the search in the page. */
const PageAway = memo(function PageAway({ page, height, transcript }: AwayProps) {
  const words = page.rows.map((row) => wordsOf(transcript, row.id).slice(0, FOUND_CHARS)).join("\n");
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

/** Above the first message that one had not read. */
function NewLine() {
  const t = useText();
  return (
    <p className="new-line">
      <span>{t("chat.new_since")}</span>
    </p>
  );
}

const sameDay = (one: number, other: number): boolean => new Date(one).toDateString() === new Date(other).toDateString();
