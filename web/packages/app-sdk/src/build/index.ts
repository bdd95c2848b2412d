// From an app's source to the files of its bundle: the declaration is run in describe mode and becomes the manifest,
// handlers become `logic.js`, the surface becomes `surface/`. Equal source gives equal bytes.

import { access, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { createContext, Script } from "node:vm";
import { manifestProblems } from "./check.ts";
import { bundleDescription, bundleLogic, bundleSurface, type Files } from "./compile.ts";
import type { Description, Manifest } from "./manifest.ts";
import { BuildFailed, type Problem } from "./problems.ts";
import { typeProblems } from "./typecheck.ts";

export { BuildFailed, type Problem } from "./problems.ts";
export type { Files } from "./compile.ts";
export type { Manifest, ManifestTool } from "./manifest.ts";

export interface BuiltApp {
  readonly manifest: Manifest;
  /** Path below the app's folder → content: `manifest.json`, `logic.js` when there are handlers, `surface/…`. */
  readonly files: Files;
}

const SOURCE = "src/app.ts";
const DESCRIBE_MS = 5_000;
const RASTER = /\.(png|webp|jpe?g)$/;

/** Builds the app in `dir` and writes its files there. Throws BuildFailed with every broken place. */
export async function buildApp(dir: string): Promise<BuiltApp> {
  const built = await compileApp(dir);
  await writeFiles(resolve(dir), built.files);
  return built;
}

/** Builds the app in `dir` without writing anything. Throws BuildFailed. */
export async function compileApp(dir: string): Promise<BuiltApp> {
  const folder = resolve(dir);
  const { manifest, surfaceSource } = await describeApp(folder);
  const files = new Map<string, Uint8Array>();
  const text = new TextEncoder();
  files.set("manifest.json", text.encode(`${JSON.stringify(manifest, null, 2)}\n`));
  if (manifest.logic !== undefined) files.set(manifest.logic, text.encode(await bundleLogic(folder, SOURCE)));
  if (surfaceSource !== null) {
    fail(await typeProblems(folder, surfaceSource, "surface"));
    for (const [path, bytes] of await bundleSurface(folder, surfaceSource)) files.set(path, bytes);
  }
  return { manifest, files };
}

/** Runs the declaration in describe mode, away from Node and from any page. Throws BuildFailed. */
export async function describeApp(dir: string): Promise<Description> {
  const folder = resolve(dir);
  await wanted(folder, SOURCE, "/");
  fail(await typeProblems(folder, SOURCE, "logic"));
  const description = run(await bundleDescription(folder, SOURCE));
  const { manifest, surfaceSource } = description;
  fail(judge(description));
  if (surfaceSource !== null) await wanted(folder, surfaceSource, "/surface/entry");
  if (manifest.icon !== undefined) {
    if (!RASTER.test(manifest.icon)) fail([{ pointer: "/icon", message: "an icon is a png, webp or jpeg" }]);
    await wanted(folder, manifest.icon, "/icon");
  }
  return description;
}

/** Everything that is wrong with what an app says about itself; empty when it may be built. */
export function judge({ manifest, problems }: Description): Problem[] {
  return [...problems, ...manifestProblems(manifest)];
}

function run(script: string): Description {
  const quiet = (): void => undefined;
  const console = { debug: quiet, log: quiet, info: quiet, warn: quiet, error: quiet };
  const context = createContext({ console }, { codeGeneration: { strings: false, wasm: false } });
  try {
    new Script(script, { filename: SOURCE }).runInContext(context, { timeout: DESCRIBE_MS });
  } catch (error) {
    const message = (error as { message?: unknown } | null)?.message ?? error;
    throw new BuildFailed([{ pointer: SOURCE, message: `the declaration cannot be run: ${String(message)}` }]);
  }
  return JSON.parse((context as { lineloopDescription: string }).lineloopDescription) as Description;
}

async function wanted(folder: string, path: string, pointer: string): Promise<void> {
  try {
    await access(join(folder, path));
  } catch {
    throw new BuildFailed([{ pointer, message: `there is no ${path}` }]);
  }
}

function fail(problems: readonly Problem[]): void {
  if (problems.length > 0) throw new BuildFailed(problems);
}

/** Only what differs is written; built files of an earlier build go. */
async function writeFiles(folder: string, files: Files): Promise<void> {
  for (const path of await builtBefore(folder)) if (!files.has(path)) await rm(join(folder, path));
  for (const [path, bytes] of files) {
    const target = join(folder, path);
    const before = await readFile(target).catch(() => null);
    if (before !== null && before.equals(bytes)) continue;
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, bytes);
  }
}

async function builtBefore(folder: string): Promise<string[]> {
  const surface = await readdir(join(folder, "surface"), { recursive: true, withFileTypes: true }).catch(() => []);
  const files = surface.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const logic = await access(join(folder, "logic.js")).then(
    () => ["logic.js"],
    () => [],
  );
  return [...files.map((file) => file.slice(folder.length + 1)), ...logic];
}
