// What the person is at in a transcript of which not all is in the document: where the keyboard is, what is marked, and
// what of it is copied.

import type { Page } from "../model/rows.ts";

/** The pages in which the keyboard is, or words that are marked begin and end: they do not go away under the person. */
export function usedPages(scroller: HTMLElement): readonly string[] {
  const marked = document.getSelection();
  const ends = marked === null || marked.isCollapsed ? [] : [marked.anchorNode, marked.focusNode];
  const used = [document.activeElement, ...ends].map((place) => pageAround(scroller, place));
  return [...new Set(used.filter((page) => page !== null))].sort();
}

function pageAround(scroller: HTMLElement, place: Node | null): string | null {
  const element = place instanceof Element ? place : place?.parentElement;
  const page = element?.closest<HTMLElement>("[data-page]");
  return page && scroller.contains(page) ? (page.dataset["page"] ?? null) : null;
}

/**
 * The words of the marked rows, when some of them are not in the document; null when the browser has all that is marked.
 * `readRow` gives the words of a row.
 */
export function markedWords(
  scroller: HTMLElement,
  pages: readonly Page[],
  readRow: (rowId: string) => string,
): string | null {
  const marked = document.getSelection();
  if (marked === null || marked.rangeCount === 0 || marked.isCollapsed) return null;
  const range = marked.getRangeAt(0);
  const elements = [...scroller.querySelectorAll<HTMLElement>(".page")].filter((page) => range.intersectsNode(page));
  if (!elements.some((page) => page.classList.contains("page-away"))) return null;
  const known = new Map(pages.map((page) => [page.key, page]));
  const words = elements.flatMap((element) => {
    const rows = known.get(element.dataset["page"] ?? "")?.rows ?? [];
    if (element.classList.contains("page-away")) return rows.map((row) => readRow(row.id));
    return rows.map((row, place) => markedIn(range, element.children[place], () => readRow(row.id)));
  });
  return words.filter((one) => one !== "").join("\n\n");
}

/** Of the row in which the marking begins or ends a part. */
function markedIn(range: Range, row: Element | undefined, read: () => string): string {
  if (row === undefined || !range.intersectsNode(row)) return "";
  const begins = row.contains(range.startContainer);
  const ends = row.contains(range.endContainer);
  if (!begins && !ends) return read();
  const part = document.createRange();
  part.selectNodeContents(row);
  if (begins) part.setStart(range.startContainer, range.startOffset);
  if (ends) part.setEnd(range.endContainer, range.endOffset);
  return part.toString().trim();
}
