import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { proverFor } from "../../src/runtime/handshake.ts";

interface Case {
  readonly case: string;
  readonly secret: string;
  readonly origin: string;
  readonly page_nonce: string;
  readonly device_nonce: string;
  readonly name: string;
  readonly device_proof: string;
  readonly page_proof: string;
  readonly next_key: string;
  readonly old_root: string;
  readonly old_page_proof: string;
}

const file = new URL("../../../../../spec/golden/shell/handshake.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf-8")) as { cases: Case[] };

test.each(cases)("$case: both sides compute the same", async (one) => {
  const proof = await proverFor(one.origin, () => one.page_nonce)(one.secret);
  expect(proof.hello).toEqual({ name: one.name, nonce: one.page_nonce });
  const challenge = { nonce: one.device_nonce, proof: one.device_proof };
  expect(await proof.answer(challenge)).toBe(one.page_proof);
  expect(await proof.key()).toBe(one.next_key);
  expect(one.old_page_proof).not.toBe(one.page_proof);
});

test("a wrong proof, that of another nonce or origin, and no proof are answered with nothing", async () => {
  const [one, other, elsewhere] = cases as [Case, Case, Case];
  const proof = await proverFor(one.origin, () => one.page_nonce)(one.secret);
  const wrong = [
    { nonce: one.device_nonce, proof: other.device_proof },
    { nonce: one.device_nonce, proof: elsewhere.device_proof },
    { nonce: one.device_nonce, proof: "" },
    { nonce: one.device_nonce },
    { proof: one.device_proof },
    {},
  ];
  for (const challenge of wrong) expect(await proof.answer(challenge)).toBeNull();
});

test("every try has a nonce of its own, long enough for the device", async () => {
  const begin = proverFor("http://127.0.0.1:1");
  const nonces = await Promise.all(Array.from({ length: 50 }, async () => (await begin("s")).hello.nonce));
  expect(new Set(nonces).size).toBe(50);
  for (const nonce of nonces) expect(nonce).toMatch(/^[A-Za-z0-9_-]{43}$/);
});
