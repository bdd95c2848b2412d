// Which pages of a transcript stand in the document: those around what is seen. The others keep their place with their
// height, and their words for the browser's search in the page, which brings them back.

import { useCallback, useEffect, useRef, useState, type RefObject } from "react";
import { flushSync } from "react-dom";
import type { Page } from "../model/rows.ts";
import { usedPages } from "./marked.ts";

/** So much above and below what is seen stands there, too: a flick of the wheel meets no empty page. */
const MARGIN_PX = 1_500;
/** At the end one screen stands above what is seen: what comes in there is drawn for as long as it can be seen. */
const SCREENS_AT_END = 2;
const SCREEN_PX = 800;
const ROW_PX = 80;

export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The pages that touch the stretch from `top` to `bottom`, both measured from the first page; at least one. */
export function spanOf(heights: readonly number[], top: number, bottom: number): Span {
  let from = 0;
  let above = 0;
  while (from < heights.length - 1 && above + (heights[from] ?? 0) <= top) above += heights[from++] ?? 0;
  let to = from;
  let end = above + (heights[from] ?? 0);
  while (to < heights.length - 1 && end < bottom) end += heights[++to] ?? 0;
  return { from, to };
}

/** The pages at the end that fill `height`; at least two, so that what a new page pushes up does not vanish at once. */
export function endOf(heights: readonly number[], height: number): Span {
  let from = heights.length - 1;
  let filled = heights[from] ?? 0;
  while (from > 0 && (filled < height || from > heights.length - 2)) filled += heights[--from] ?? 0;
  return { from: Math.max(from, 0), to: heights.length - 1 };
}

/** By their keys: pages that come in above do not move it. */
interface KeySpan {
  readonly from: string;
  readonly to: string;
}

/** The height of a page when it had so many rows. */
interface Measured {
  readonly height: number;
  readonly rows: number;
}

export interface Window extends Span {
  isThere(index: number): boolean;
  heightOf(page: Page): number;
  /** The person scrolled, or what there is has changed. */
  look(atEnd: boolean): void;
  /** Makes this page the one that is there, until somebody looks. */
  show(page: string): void;
  /** For the element of each page that is there. */
  measure(element: HTMLElement | null): (() => void) | undefined;
}

export function useWindow(
  scroller: RefObject<HTMLElement | null>,
  inner: RefObject<HTMLElement | null>,
  pages: readonly Page[],
): Window {
  const [span, setSpan] = useState<KeySpan | null>(null);
  const [kept, setKept] = useState<readonly string[]>([]);
  const printing = usePrinting();
  const heights = useRef(new Map<string, Measured>());
  const seen_px = useRef(0);
  const known = useRef(pages);
  known.current = pages;
  const [observer] = useState(() =>
    typeof ResizeObserver === "undefined"
      ? null
      : new ResizeObserver((changes) => {
          for (const { target, contentRect } of changes) {
            if (target === scroller.current) seen_px.current = contentRect.height;
            const { dataset, offsetHeight, isConnected, childElementCount } = target as HTMLElement;
            const page = dataset["page"];
            if (page !== undefined && isConnected && childElementCount > 0) {
              heights.current.set(page, { height: offsetHeight, rows: childElementCount });
            }
          }
        }),
  );
  useEffect(() => {
    if (scroller.current !== null) observer?.observe(scroller.current);
    return () => observer?.disconnect();
  }, [observer, scroller]);

  const heightOf = useCallback((page: Page) => {
    const { height, rows } = heights.current.get(page.key) ?? { height: ROW_PX, rows: 1 };
    return Math.round((height / rows) * page.rows.length);
  }, []);
  const look = useCallback(
    (atEnd: boolean) => {
      const element = scroller.current;
      const all = known.current;
      const used = element === null ? [] : usedPages(element);
      setKept((before) => (before.join() === used.join() ? before : used));
      if (element === null || atEnd || all.length === 0) return setSpan(null);
      const top = element.scrollTop - (inner.current?.offsetTop ?? 0);
      const { from, to } = spanOf(all.map(heightOf), top - MARGIN_PX, top + element.clientHeight + MARGIN_PX);
      const [first, last] = [all[from]?.key ?? "", all[to]?.key ?? ""];
      setSpan((before) => (before?.from === first && before.to === last ? before : { from: first, to: last }));
    },
    [scroller, inner, heightOf],
  );
  const show = useCallback((page: string) => setSpan({ from: page, to: page }), []);
  // The browser's search in the page found words of a page that is not there.
  useEffect(() => {
    const element = scroller.current;
    const found = (event: Event) => {
      const page = (event.target as HTMLElement).dataset["page"];
      if (page !== undefined) flushSync(() => show(page));
    };
    element?.addEventListener("beforematch", found);
    return () => element?.removeEventListener("beforematch", found);
  }, [scroller, show]);

  const measure = useCallback(
    (element: HTMLElement | null) => {
      if (element === null) return undefined;
      observer?.observe(element);
      return () => observer?.unobserve(element);
    },
    [observer],
  );
  const { from, to } = indices(pages, span, () =>
    endOf(pages.map(heightOf), SCREENS_AT_END * (seen_px.current || SCREEN_PX)),
  );
  return {
    from,
    to,
    isThere: (index) => printing || (index >= from && index <= to) || kept.includes(pages[index]?.key ?? ""),
    heightOf,
    look,
    show,
    measure,
  };
}

function indices(pages: readonly Page[], span: KeySpan | null, end: () => Span): Span {
  if (span === null) return end();
  const from = pages.findIndex((page) => page.key === span.from);
  const to = pages.findLastIndex((page) => page.key === span.to);
  return from < 0 || to < 0 ? end() : { from, to };
}

/** On paper the whole conversation stands, as far as it was fetched. */
function usePrinting(): boolean {
  const [printing, setPrinting] = useState(false);
  useEffect(() => {
    const begin = () => flushSync(() => setPrinting(true));
    const end = () => setPrinting(false);
    globalThis.addEventListener("beforeprint", begin);
    globalThis.addEventListener("afterprint", end);
    return () => {
      globalThis.removeEventListener("beforeprint", begin);
      globalThis.removeEventListener("afterprint", end);
    };
  }, []);
  return printing;
}
