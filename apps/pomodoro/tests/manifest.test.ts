import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { compileApp } from "@lineloop/app-sdk/build";

const APP = fileURLToPath(new URL("..", import.meta.url));
const MAX_SURFACE_BYTES = 64 * 1024;

test("the manifest is what the source declares, and the surface is built from it", async () => {
  const { files, manifest } = await compileApp(APP);
  const committed = await readFile(`${APP}/manifest.json`, "utf8");
  // Run `npm run build:apps` after a change of src/app.ts.
  expect(committed).toBe(new TextDecoder().decode(files.get("manifest.json")));
  expect([...files.keys()]).toEqual(["manifest.json", "surface/main.css", "surface/main.js"]);
  expect(manifest.logic).toBeUndefined();
  expect(files.get("surface/main.js")?.length).toBeLessThan(MAX_SURFACE_BYTES);
}, 60_000);
