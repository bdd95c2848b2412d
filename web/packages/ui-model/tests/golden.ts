// Reads the cases of spec/golden, which the Python tests read too.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const GOLDEN = join(dirname(fileURLToPath(import.meta.url)), "../../../../spec/golden");

export function document<T>(path: string): T {
  return JSON.parse(readFileSync(join(GOLDEN, path), "utf8")) as T;
}

export function cases<T>(path: string): T[] {
  return document<{ cases: T[] }>(path).cases;
}

export function names(folder: string): string[] {
  return readdirSync(join(GOLDEN, folder))
    .filter((name) => name.endsWith(".json"))
    .map((name) => name.slice(0, -".json".length));
}
