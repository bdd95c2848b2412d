import { expect, test } from "vitest";
import { readWorkspace } from "../../src/workspace/shapes.ts";
import { Confirmer, decideShown, type Shown, type Sight } from "../../src/workspace/shown.ts";

const INSTANCE = {
  instance_id: "i1",
  conversation_id: "c1",
  app_scope: "pomodoro",
  title: "Pomodoro",
  state: "activating",
  activation_id: "a1",
  generation: 3,
  confirmed: false,
  surface: true,
};

function sight(more: Partial<Sight> = {}, instance: object = {}, workspace: object = {}): Sight {
  return {
    workspace: readWorkspace({
      lease: true,
      foreground: { conversation_id: "c1", instance_id: "i1" },
      conversations: { c1: { stack: [{ ...INSTANCE, ...instance }] } },
      closing: [],
      ...workspace,
    }),
    visible: true,
    covered: false,
    conversation_id: "c1",
    isOnScreen: () => true,
    ...more,
  };
}

test("an app that a person sees is confirmed with its activation and generation", () => {
  expect(decideShown(sight())).toEqual({ instance_id: "i1", activation_id: "a1", generation: 3 });
});

test.each([
  ["the page is hidden", sight({ visible: false })],
  ["a sheet stands in front", sight({ covered: true })],
  ["the page shows another conversation", sight({ conversation_id: "c2" })],
  ["the frame is not laid out or not connected", sight({ isOnScreen: () => false })],
  ["the lease is another page's", sight({}, {}, { lease: false })],
  ["the chat is the foreground", sight({}, {}, { foreground: null })],
  ["the foreground is an instance that is gone", sight({}, {}, { foreground: { conversation_id: "c1", instance_id: "i9" } })],
  ["it is confirmed", sight({}, { confirmed: true })],
  ["nothing is being activated", sight({}, { activation_id: null })],
])("nothing is confirmed when %s", (_name, seen) => {
  expect(decideShown(seen)).toBeNull();
});

function confirmer() {
  const world = { look: null as Shown | null, sent: [] as Shown[], paints: [] as (() => void)[] };
  const made = new Confirmer({
    look: () => world.look,
    send: (shown) => world.sent.push(shown),
    afterPaint: (work) => world.paints.push(work),
  });
  const paint = () => world.paints.splice(0).forEach((work) => work());
  return { world, made, paint };
}
const SHOWN: Shown = { instance_id: "i1", activation_id: "a1", generation: 1 };

test("it is confirmed after it was painted, once", () => {
  const { world, made, paint } = confirmer();
  world.look = SHOWN;
  made.check();
  made.check();
  expect(world.sent).toEqual([]);
  paint();
  made.check();
  paint();
  expect(world.sent).toEqual([SHOWN]);
});

test("what went away before the paint is not confirmed", () => {
  const { world, made, paint } = confirmer();
  world.look = SHOWN;
  made.check();
  world.look = null;
  paint();
  expect(world.sent).toEqual([]);
});

test("the next generation and the next connection are confirmed again", () => {
  const { world, made, paint } = confirmer();
  world.look = SHOWN;
  made.check();
  paint();
  world.look = { ...SHOWN, generation: 2 };
  made.check();
  paint();
  made.restart();
  paint();
  expect(world.sent.map((shown) => shown.generation)).toEqual([1, 2, 2]);
});
