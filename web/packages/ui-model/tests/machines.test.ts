import { describe, expect, test } from "vitest";
import { LoopError, Machine, MACHINES, type MachineName, type Transition } from "../src/index.ts";
import { document, names } from "./golden.ts";

interface Table {
  readonly name: MachineName;
  readonly initial: string;
  readonly states: readonly string[];
  readonly events: readonly string[];
  readonly terminal: readonly string[];
  readonly transitions: readonly Transition[];
}

const TABLES = names("machines").map((name) => document<Table>(`machines/${name}.json`));

describe("the state tables", () => {
  test("each golden table has its machine and the reverse", () => {
    expect(TABLES.map((table) => table.name).sort()).toEqual(Object.keys(MACHINES).sort());
  });

  test.each(TABLES)("every pair of $name steps as the table says or is refused", (table) => {
    const machine = MACHINES[table.name];
    const legal = new Map(table.transitions.map(([from, event, to]) => [`${from} ${event}`, to]));
    for (const state of table.states) {
      for (const event of table.events) {
        const to = legal.get(`${state} ${event}`);
        expect(machine.allows(state, event)).toBe(to !== undefined);
        if (to === undefined) expect(() => machine.next(state, event)).toThrow(LoopError);
        else expect(machine.next(state, event)).toBe(to);
      }
    }
  });

  test.each(TABLES)("states, events, start and ends of $name match", (table) => {
    const machine = MACHINES[table.name];
    expect(machine.initial).toBe(table.initial);
    expect(machine.states).toEqual(new Set(table.states));
    expect(machine.events).toEqual(new Set(table.events));
    expect(table.states.filter((state) => machine.isTerminal(state)).sort()).toEqual([...table.terminal].sort());
  });

  test("a refused step has its code and says where it stood", () => {
    try {
      MACHINES.call.next("succeeded", "fail");
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({
        code: "illegal_transition",
        detail: { machine: "call", state: "succeeded", event: "fail" },
      });
    }
  });

  test("two rows for one pair are a mistake", () => {
    expect(() => new Machine("m", "a", [["a", "go", "b"], ["a", "go", "c"]])).toThrow("two rows");
  });
});
