// What a browser has to load before the shell works: measured on a build of the sources as they are.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";

const LIMIT_BYTES = 150 * 1024;
const SHELL = fileURLToPath(new URL("..", import.meta.url));
const VITE = join(dirname(createRequire(import.meta.url).resolve("vite/package.json")), "bin/vite.js");

let folder: string;
const read = (name: string) => readFileSync(join(folder, name), "utf8");
const files = () => readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());

// A process of its own, because a test's is not in production.
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "shell-"));
  const env = { ...process.env, NODE_ENV: "production" };
  execFileSync(process.execPath, [VITE, "build", "--outDir", folder, "--logLevel", "error"], { cwd: SHELL, env });
}, 180_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the shell begins with at most 150 KB of scripts and styles", () => {
  const page = read("index.html");
  const initial = [...page.matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)].map((match) => String(match[1]));
  expect(initial.length).toBeGreaterThanOrEqual(2);
  const size = initial.reduce((sum, name) => sum + gzipSync(read(name), { level: 9 }).length, 0);
  expect(size).toBeLessThanOrEqual(LIMIT_BYTES);
});

test("nothing is inline, nothing is evaluated, and every file but the page is named by its content", () => {
  const page = read("index.html");
  expect(page).not.toMatch(/<script(?![^>]*\ssrc=)/);
  expect(page).not.toMatch(/<style|\sstyle=|\son[a-z]+=|https?:/);
  const names = files().map((entry) => entry.name);
  for (const name of names.filter((one) => one.endsWith(".js"))) {
    expect(read(join("assets", name))).not.toMatch(/\beval\(|new Function\(/);
  }
  expect(names.filter((name) => /^gate-worker-[\w-]{8}\.js$/.test(name))).toHaveLength(1);
  expect(names.filter((name) => !/-[\w-]{8}\.\w+$/.test(name)).sort()).toEqual(["index.html", "mark.svg"]);
});
