// Which rows a transcript has, in which order. Pure: from what is known to what stands there.

import { at, inputOf, isShown, isStreaming, operatorOf, readable, speakerOf, type Call, type Message } from "./wire.ts";

export interface Row {
  /** `draft`: the work of a Run while its answer is not stored yet. `saying`: what the person said, not stored yet. */
  readonly kind: "message" | "draft" | "saying";
  /** Stays the same from the first sight of a thing to its stored message. */
  readonly key: string;
  /** The message, the Run's message, or the saying's key. */
  readonly id: string;
  readonly at: number;
  /** Who speaks, as `kind/key`; the person is `user`. */
  readonly speaker: string;
}

/** Rows that are laid out together: those of one stretch of ordinals, so that older ones never move newer ones. */
export interface Page {
  readonly key: string;
  readonly rows: readonly Row[];
}

export const PAGE_ORDINALS = 20;
const LIVE_PAGE = "live";
const PERSON = "user";

export interface Known {
  readonly rootId: string;
  /** Messages of the root, by ordinal. */
  readonly root: readonly Message[];
  /** Runs in process conversations that were seen streaming here. */
  readonly runs: readonly Message[];
  readonly sayings: readonly { readonly key: string; readonly created_at: string }[];
}

export function pagesOf(known: Known): readonly Page[] {
  const rows: { row: Row; page: string }[] = [];
  const answered = new Set<string>();
  for (const message of known.root) {
    if (!isShown(message)) continue;
    const row = rowOf("message", rowKey(message, answered), message, message.created_at);
    rows.push({ row, page: String(Math.floor(message.ordinal / PAGE_ORDINALS)) });
  }
  for (const run of known.runs) place(rows, run, answered);
  const stored = new Set(known.root.filter(isPersons).map((message) => message.key));
  for (const saying of known.sayings) {
    if (stored.has(saying.key)) continue;
    const said = { key: `said:${saying.key}`, id: saying.key, at: at(saying.created_at) };
    rows.push({ row: { kind: "saying", ...said, speaker: PERSON }, page: LIVE_PAGE });
  }
  return grouped(rows);
}

/** The row that a message had when it was last asked for: a long conversation is gone through for each that comes. */
const made = new WeakMap<Message, Row>();

function rowOf(kind: Row["kind"], key: string, message: Message, time: string): Row {
  const before = made.get(message);
  if (before !== undefined && before.kind === kind && before.key === key) return before;
  const row = newRow(kind, key, message, time);
  made.set(message, row);
  return row;
}

function newRow(kind: Row["kind"], key: string, message: Message, time: string): Row {
  const { kind: speaks, key: name } = speakerOf(message);
  const operator = operatorOf(speakerOf(message));
  const speaker = speaks === PERSON ? PERSON : operator === null ? `${speaks}/${name}` : `operator/${operator}`;
  return { kind, key, id: message.id, at: at(time), speaker };
}

const isPersons = (message: Message): boolean => message.actor.kind === PERSON;

/** A row keeps its key from the first sight to the stored message, so it is never drawn anew. */
function rowKey(message: Message, answered: Set<string>): string {
  if (isPersons(message)) return message.purpose === "input" ? `said:${message.key}` : message.id;
  const input = message.purpose === "question" ? null : message.reply_to_id;
  if (input === null || answered.has(input)) return message.id;
  answered.add(input);
  return `answer:${input}`;
}

/**
 * A Run that works stands at the end. One that ended stands where it ended, until its answer is there; what a stopped
 * or failed one had said by then stays.
 */
function place(rows: { row: Row; page: string }[], run: Message, answered: ReadonlySet<string>): void {
  const input = inputOf(run);
  const isAnswered = input !== null && answered.has(input);
  const key = input === null || isAnswered ? run.id : `answer:${input}`;
  if (isStreaming(run)) {
    rows.push({ row: rowOf("draft", key, run, run.created_at), page: LIVE_PAGE });
    return;
  }
  const said = readable(run.content) !== "";
  if (isAnswered && (run.status === "completed" || !said)) return;
  const ended = at(run.updated_at);
  let place = rows.length;
  while (place > 0 && (rows[place - 1]?.row.at ?? 0) > ended) place -= 1;
  const page = rows[place]?.page ?? LIVE_PAGE;
  rows.splice(place, 0, { row: rowOf("draft", isAnswered ? run.id : key, run, run.updated_at), page });
}

function grouped(rows: readonly { row: Row; page: string }[]): readonly Page[] {
  const pages: { key: string; rows: Row[] }[] = [];
  for (const { row, page } of rows) {
    const last = pages.at(-1);
    if (last?.key === page) last.rows.push(row);
    else pages.push({ key: page, rows: [row] });
  }
  return pages;
}

/** The pages after a change, with every page and row that is as it was before being the same object. */
export function reusePages(before: readonly Page[], after: readonly Page[]): readonly Page[] {
  const known = new Map(before.map((page) => [page.key, page]));
  const pages = after.map((page) => {
    const old = known.get(page.key);
    if (old === undefined) return page;
    return sameRows(old.rows, page.rows) ? old : { key: page.key, rows: reuseRows(old.rows, page.rows) };
  });
  return pages.length === before.length && pages.every((page, index) => page === before[index]) ? before : pages;
}

function reuseRows(before: readonly Row[], after: readonly Row[]): readonly Row[] {
  const known = new Map(before.map((row) => [row.key, row]));
  return after.map((row) => {
    const old = known.get(row.key);
    return old !== undefined && isSame(old, row) ? old : row;
  });
}

const isSame = (one: Row, other: Row): boolean =>
  one.key === other.key && one.id === other.id && one.kind === other.kind && one.at === other.at;

function sameRows(one: readonly Row[], other: readonly Row[]): boolean {
  return (
    one.length === other.length &&
    one.every((row, index) => {
      const peer = other[index];
      return peer !== undefined && isSame(row, peer);
    })
  );
}

/** Message id → its calls: under the person's message that the Run works on, else under what stood there last. */
export function callsByCause(
  calls: Iterable<Call>,
  root: readonly Message[],
  find: (id: string) => Message | undefined,
): ReadonlyMap<string, readonly string[]> {
  const causes = new Map<string, string[]>();
  const inRoot = new Set(root.filter(isShown).map((message) => message.id));
  const ordered = [...calls].sort((a, b) => at(a.accepted_at) - at(b.accepted_at));
  for (const call of ordered) {
    const run = call.run_message_id === null ? undefined : find(call.run_message_id);
    const input = run === undefined ? null : inputOf(run);
    const named = [input, call.run_message_id].find((id) => id !== null && inRoot.has(id));
    const cause = named ?? lastBefore(root, at(call.accepted_at));
    if (cause !== null) causes.set(cause, [...(causes.get(cause) ?? []), call.call_id]);
  }
  return causes;
}

function lastBefore(root: readonly Message[], time: number): string | null {
  const message = root.findLast((one) => isPersons(one) && isShown(one) && at(one.created_at) <= time);
  return message?.id ?? null;
}
