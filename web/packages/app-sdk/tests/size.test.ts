import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { compiled, source } from "./apps.ts";

const LIMIT = 12 * 1024;

async function size(surface: string): Promise<number> {
  const built = await compiled(source("", `surface: { entry: "src/surface.ts" },`), { "src/surface.ts": surface });
  return gzipSync(built.files.get("surface/main.js") ?? "", { level: 9 }).length;
}

test("what a surface carries of the SDK has at most 12 KB, compressed", async () => {
  const connected = await size(`import { connect } from "@lineloop/app-sdk"; void connect();`);
  const everything = await size(
    `import * as sdk from "@lineloop/app-sdk"; (globalThis as { sdk?: unknown }).sdk = sdk;`,
  );
  expect(connected).toBeLessThan(everything);
  expect(everything).toBeLessThanOrEqual(LIMIT);
  expect(connected).toBeGreaterThan(1024);
}, 60_000);
