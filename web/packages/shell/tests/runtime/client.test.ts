import { expect, test } from "vitest";
import { loadAnew } from "../../src/runtime/access.ts";
import { waitBefore } from "../../src/runtime/client.ts";
import { FakeStorage, settle, World } from "../world.ts";

test("a page with a code of the address proves that it knows it and keeps the key that comes of it", async () => {
  const world = new World();
  world.access.code = "once";
  world.client.start();
  expect(world.access.code).toBeNull();
  const socket = await world.welcome();
  expect(socket.sent[0]?.payload).toMatchObject({ name: "name of once", nonce: "page", tab: "tab_1", versions: [3] });
  expect(socket.sent[1]).toMatchObject({ type: "prove", payload: { proof: "page knows once" } });
  expect(world.access.stored).toBe("key for once");
  expect(world.client.link.get()).toBe("online");
});

test("a page with a key needs no code", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  const socket = await world.welcome();
  expect(socket.sent[0]?.payload).toMatchObject({ name: "name of kept" });
  expect(world.access.stored).toBe("kept");
});

test("whoever took the Runtime's port hears neither code nor key nor a proof, and the page waits", async () => {
  for (const challenge of [{ nonce: "n", proof: "guessed" }, {}, { host_session_id: "hs_1" }]) {
    const world = new World();
    world.access.code = "once";
    world.access.stored = "kept";
    world.client.start();
    const { socket } = world;
    socket.onopen?.();
    await settle();
    socket.answer(socket.sent[0]?.id, challenge);
    await settle();
    expect(socket.types()).toEqual(["hello"]);
    expect(Object.values(socket.sent[0]?.payload ?? {})).not.toContain("once");
    expect(socket.closed).toBe(true);
    expect(world.client.link.get()).toBe("gone");
    expect(world.access.stored).toBe("kept");
    await world.time.advance(500);
    await world.welcome();
    expect(world.client.link.get()).toBe("online");
  }
});

test("without code and key nothing is asked of the Runtime, and the page says that it is shut out", async () => {
  const world = new World();
  world.client.start();
  world.socket.onopen?.();
  await settle();
  expect(world.socket.sent).toEqual([]);
  expect(world.client.link.get()).toBe("unauthenticated");
  await world.time.advance(60_000);
  expect(world.sockets).toHaveLength(1);
});

test("a used code does not shut out a browser that has a key", async () => {
  const world = new World();
  world.access.code = "used";
  world.access.stored = "kept";
  world.client.start();
  world.socket.onopen?.();
  await settle();
  world.socket.refuse(world.socket.sent[0]?.id, "unauthorized");
  await settle();
  expect(world.sockets).toHaveLength(2);
  const socket = await world.welcome();
  expect(socket.sent[0]?.payload).toMatchObject({ name: "name of kept" });
  expect(world.client.link.get()).toBe("online");
});

test("when the answer to a proof is lost, the key that came of the code lets the page in", async () => {
  const world = new World();
  world.access.code = "once";
  world.access.stored = "of another device";
  world.client.start();
  const first = world.socket;
  first.onopen?.();
  await settle();
  first.answer(first.sent[0]?.id, { nonce: "device", proof: "device knows once" });
  await settle();
  expect(first.types()).toEqual(["hello", "prove"]);
  first.onclose?.({ code: 1006 });
  expect(world.access.stored).toBe("of another device");
  await world.time.advance(500);
  world.socket.onopen?.();
  await settle();
  expect(world.socket.sent[0]?.payload).toMatchObject({ name: "name of once" });
  world.socket.refuse(world.socket.sent[0]?.id, "unauthorized");
  await settle();
  const socket = await world.welcome();
  expect(socket.sent[0]?.payload).toMatchObject({ name: "name of key for once" });
  expect(world.access.stored).toBe("key for once");
  expect(world.client.link.get()).toBe("online");
});

test("a Runtime of another version has the page loaded anew, with the code that was not used", async () => {
  const world = new World();
  world.access.code = "once";
  world.client.start();
  world.socket.onopen?.();
  await settle();
  world.socket.refuse(world.socket.sent[0]?.id, "protocol_version_unsupported");
  await settle();
  expect(world.outdated).toEqual(["once"]);
});

test("a page loads itself anew once in a version, and its code comes along", () => {
  let loads = 0;
  const addresses: string[] = [];
  const page = {
    sessionStorage: new FakeStorage(),
    history: { replaceState: (_: unknown, __: string, address: string) => addresses.push(address) },
    location: { reload: () => (loads += 1) },
  } as unknown as Window;
  loadAnew(page, 3)("a-code");
  loadAnew(page, 3)(null);
  expect([loads, addresses]).toEqual([1, ["#code=a-code"]]);
  loadAnew(page, 4)(null);
  expect(loads).toBe(2);
});

test("a key that is not known any more is forgotten; a key that another tab got lets this page in", async () => {
  const world = new World();
  world.access.stored = "old";
  world.client.start();
  world.socket.onopen?.();
  await settle();
  world.socket.onclose?.({ code: 4401 });
  expect(world.client.link.get()).toBe("unauthenticated");
  expect(world.access.stored).toBeNull();
  world.access.stored = "new";
  world.access.changed();
  await world.welcome();
  expect(world.client.link.get()).toBe("online");
});

test("a lost connection is tried again with growing, bounded waits, and at once when asked", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  await world.welcome();
  world.socket.onclose?.({ code: 1006 });
  expect(world.client.link.get()).toBe("gone");
  await world.time.advance(299);
  expect(world.sockets).toHaveLength(1);
  await world.time.advance(1);
  expect(world.sockets).toHaveLength(2);
  for (let attempt = 0; attempt < 6; attempt += 1) {
    world.socket.onclose?.({ code: 1006 });
    await world.time.advance(5_000);
  }
  world.socket.onclose?.({ code: 1006 });
  expect(world.client.nextTry.get()).toBe(world.time.now() + 5_000);
  const before = world.sockets.length;
  world.client.tryNow();
  expect(world.sockets).toHaveLength(before + 1);
  expect(world.client.nextTry.get()).toBeNull();
});

test("waits are spread by a third to both sides", () => {
  expect(waitBefore(0, 0)).toBeCloseTo(210);
  expect(waitBefore(0, 1)).toBeCloseTo(390);
  expect(waitBefore(20, 0.5)).toBe(5_000);
});

test("the Runtime says when to come back", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  const socket = await world.welcome();
  socket.event("bye", { reason: "restart", retry_ms: 2_000 });
  socket.onclose?.({ code: 4408 });
  expect(world.client.nextTry.get()).toBe(world.time.now() + 2_000);
});

test("two beats without a word and the connection is lost; any frame counts as a word", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  const socket = await world.welcome();
  await world.time.advance(20_000);
  socket.event("ping", {});
  await world.time.advance(20_000);
  expect(world.client.link.get()).toBe("online");
  await world.time.advance(25_000);
  expect(world.client.link.get()).toBe("gone");
  expect(socket.closed).toBe(true);
});

test("a page that slept reads what waited for it before it calls the connection lost", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  const socket = await world.welcome();
  world.time.sleep(3_600_000);
  await world.time.advance(1);
  expect(world.client.link.get()).toBe("online");
  socket.event("ping", {});
  await world.time.advance(15_000);
  expect(world.client.link.get()).toBe("online");
});

test("an open request fails when the connection goes, and none is sent while it is gone", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  await world.welcome();
  const answer = world.client.request("apps.launch", { app_scope: "pomodoro" });
  world.socket.onclose?.({ code: 1006 });
  await expect(answer).rejects.toMatchObject({ code: "connection_lost" });
  await expect(world.client.request("models.find", {})).rejects.toMatchObject({ code: "connection_lost" });
});

test("what the Runtime refuses comes with its code", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  const socket = await world.welcome();
  const answer = world.client.request("apps.launch", { app_scope: "pomodoro" });
  socket.refuse(socket.sent.at(-1)?.id, "forbidden");
  await expect(answer).rejects.toMatchObject({ code: "forbidden", retryable: false });
});

test("frames that are none are passed over", async () => {
  const world = new World();
  world.access.stored = "kept";
  world.client.start();
  const socket = await world.welcome();
  const heard: unknown[] = [];
  world.client.on("workspace", (payload) => heard.push(payload));
  socket.onmessage?.({ data: "{" });
  socket.onmessage?.({ data: new ArrayBuffer(3) });
  socket.say([]);
  socket.say({ v: 2, type: "workspace", payload: {} });
  socket.say({ v: 1, id: "a", type: "workspace", payload: {} });
  socket.event("workspace", { lease: true });
  expect(heard).toEqual([{ lease: true }]);
});
