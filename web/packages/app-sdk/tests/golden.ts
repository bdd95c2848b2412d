// Reads the cases of spec/golden, which the Python tests read too.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const GOLDEN = new URL("../../../../spec/golden/", import.meta.url);

export function cases<T>(path: string): T[] {
  return (JSON.parse(readFileSync(fileURLToPath(new URL(path, GOLDEN)), "utf8")) as { cases: T[] }).cases;
}
