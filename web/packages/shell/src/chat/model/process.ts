// The work behind a message: which working messages belong to it, and which went on at the same time. Pure.

import { at, inputOf, isStreaming, speakerOf, type Message } from "./wire.ts";
import type { ActorName } from "../../runtime/chat-core.ts";

/** Working messages that overlap in time, one column per actor. */
export interface Stretch {
  readonly from: number;
  readonly until: number | null;
  readonly columns: readonly { readonly actor: ActorName; readonly messages: readonly Message[] }[];
}

/** The input that a message is about: itself, or what it answers. */
export function subjectOf(message: Message, find: (id: string) => Message | undefined): Message | null {
  const seen = new Set<string>();
  let current: Message | undefined = message;
  while (current !== undefined && !seen.has(current.id)) {
    if (current.purpose === "input") return current;
    seen.add(current.id);
    const above: string | null = current.reply_to_id ?? inputOf(current);
    current = above === null ? undefined : find(above);
  }
  return null;
}

/** The work on `input`: what names it, else what was done until the person's next message to the same operator. */
export function workOn(input: Message, next: Message | null, work: readonly Message[]): readonly Message[] {
  const named = work.filter((message) => inputOf(message) === input.id);
  if (named.length > 0) return named;
  const [from, until] = [at(input.created_at), next === null ? Infinity : at(next.created_at)];
  return work.filter((message) => inputOf(message) === null && at(message.created_at) >= from && at(message.created_at) < until);
}

export function stretchesOf(work: readonly Message[]): readonly Stretch[] {
  const groups: { from: number; until: number | null; messages: Message[] }[] = [];
  for (const message of [...work].sort((a, b) => at(a.created_at) - at(b.created_at))) {
    const from = at(message.created_at);
    const until = isStreaming(message) ? null : at(message.updated_at);
    const last = groups.at(-1);
    if (last !== undefined && (last.until === null || last.until > from)) {
      last.messages.push(message);
      last.until = last.until === null || until === null ? null : Math.max(last.until, until);
    } else groups.push({ from, until, messages: [message] });
  }
  return groups.map(({ from, until, messages }) => ({ from, until, columns: columnsOf(messages) }));
}

function columnsOf(messages: readonly Message[]): Stretch["columns"] {
  const columns = new Map<string, { actor: ActorName; messages: Message[] }>();
  for (const message of messages) {
    const actor = speakerOf(message);
    const name = `${actor.kind}/${actor.key}`;
    const column = columns.get(name) ?? { actor, messages: [] };
    columns.set(name, column);
    column.messages.push(message);
  }
  return [...columns.values()];
}
