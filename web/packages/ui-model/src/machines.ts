// The state tables (spec/protocol.md §11): one reader over data generated from src/lineloop/protocol.

import { LoopError } from "./errors.ts";
import { TABLES } from "./tables.generated.ts";

export type Transition = readonly [from: string, event: string, to: string];

export class Machine {
  readonly name: string;
  readonly initial: string;
  readonly transitions: readonly Transition[];
  readonly #next: ReadonlyMap<string, ReadonlyMap<string, string>>;

  constructor(name: string, initial: string, transitions: readonly Transition[]) {
    this.name = name;
    this.initial = initial;
    this.transitions = transitions;
    const next = new Map<string, Map<string, string>>();
    for (const [from, event, to] of transitions) {
      const row = next.get(from) ?? new Map<string, string>();
      if (row.has(event)) throw new Error(`two rows for ${from} and ${event}`);
      next.set(from, row.set(event, to));
    }
    this.#next = next;
  }

  get states(): ReadonlySet<string> {
    return new Set([this.initial, ...this.transitions.flatMap(([from, , to]) => [from, to])]);
  }

  get events(): ReadonlySet<string> {
    return new Set(this.transitions.map(([, event]) => event));
  }

  allows(state: string, event: string): boolean {
    return this.#next.get(state)?.has(event) ?? false;
  }

  isTerminal(state: string): boolean {
    return !this.#next.has(state);
  }

  /** The state after `event`. Throws LoopError `illegal_transition`. */
  next(state: string, event: string): string {
    const after = this.#next.get(state)?.get(event);
    if (after === undefined) {
      const detail = { machine: this.name, state, event };
      throw new LoopError("illegal_transition", `${this.name}: ${event} is not possible in state ${state}`, [], detail);
    }
    return after;
  }
}

export type MachineName = keyof typeof TABLES;

export const MACHINES = Object.fromEntries(
  Object.entries(TABLES).map(([name, table]) => [name, new Machine(name, table.initial, table.transitions)]),
) as Readonly<Record<MachineName, Machine>>;
