// Bundles an app's source: its declaration (to be described), its logic (no page, one script) and its surface (modules
// under `surface/` that a strict, path-based policy lets run in an opaque origin).

import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type InlineConfig, type Plugin, type Rolldown } from "vite";
import { BuildFailed, type Problem } from "./problems.ts";

/** Path inside the bundle → content. */
export type Files = ReadonlyMap<string, Uint8Array>;

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ENTRY = "virtual:lineloop-entry";

const OUTPUT = { write: false, target: "es2022", minify: true, sourcemap: false, reportCompressedSize: false } as const;

/** A script that leaves the description of the app, as JSON text, in `lineloopDescription`. */
export async function bundleDescription(dir: string, source: string): Promise<string> {
  return await script(
    dir,
    `
    import app from ${quoted(resolve(dir, source))};
    import { describe } from ${quoted(resolve(HERE, "describe.ts"))};
    globalThis.lineloopDescription = JSON.stringify(describe(app));
  `,
  );
}

/** The script of the logic container. */
export async function bundleLogic(dir: string, source: string): Promise<string> {
  return await script(
    dir,
    `
    import app from ${quoted(resolve(dir, source))};
    import { serve } from ${quoted(resolve(HERE, "logic-entry.ts"))};
    serve(app);
  `,
  );
}

/** The files of the surface. Throws BuildFailed for what its page could not run. */
export async function bundleSurface(dir: string, source: string): Promise<Files> {
  const { output } = await bundle({
    ...common(dir),
    base: "./",
    build: {
      ...OUTPUT,
      assetsInlineLimit: 0,
      cssTarget: ["chrome123", "firefox128", "safari17.5"],
      cssCodeSplit: false,
      modulePreload: { polyfill: false },
      rolldownOptions: {
        input: { main: resolve(dir, source) },
        output: {
          entryFileNames: "surface/[name].js",
          chunkFileNames: "surface/[name]-[hash].js",
          assetFileNames: ({ names }) =>
            names.some((name) => name.endsWith(".css")) ? "surface/main.css" : "surface/[name]-[hash][extname]",
        },
      },
    },
  });
  const files = new Map(output.map((part) => [part.fileName, bytesOf(part)]));
  const problems = [...files].flatMap(([path, bytes]) => unfit(path, bytes));
  if (problems.length > 0) throw new BuildFailed(problems);
  return new Map([...files].sort(([a], [b]) => (a < b ? -1 : 1)));
}

async function script(dir: string, entry: string): Promise<string> {
  const virtual: Plugin = {
    name: "lineloop-entry",
    resolveId: (id) => (id === ENTRY ? `\0${ENTRY}` : null),
    load: (id) => (id === `\0${ENTRY}` ? entry : null),
  };
  const { output } = await bundle({
    ...common(dir),
    plugins: [virtual],
    build: {
      ...OUTPUT,
      rolldownOptions: {
        input: ENTRY,
        output: { format: "iife", entryFileNames: "logic.js", codeSplitting: false },
      },
    },
  });
  const [only, ...more] = output;
  if (only?.type !== "chunk" || more.length > 0) {
    const names = more.map(({ fileName }) => fileName).join(", ");
    throw new BuildFailed([{ pointer: "/logic", message: `the logic is one script; it brings ${names}` }]);
  }
  return only.code;
}

async function bundle(config: InlineConfig): Promise<Rolldown.RolldownOutput> {
  const built = await build(config);
  if (Array.isArray(built) || !("output" in built)) throw new Error("one build gives one output");
  return built;
}

// Nothing of the machine enters: no configuration file, no environment, no public folder.
function common(dir: string): InlineConfig {
  return { root: dir, configFile: false, envFile: false, publicDir: false, logLevel: "silent", mode: "production" };
}

function bytesOf(part: Rolldown.OutputChunk | Rolldown.OutputAsset): Uint8Array {
  const content = part.type === "chunk" ? part.code : part.source;
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}

function unfit(path: string, bytes: Uint8Array): Problem[] {
  const problems: Problem[] = [];
  if (!/^[A-Za-z0-9_-][A-Za-z0-9._-]*(\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/.test(path) || !path.startsWith("surface/")) {
    problems.push({ pointer: path, message: "names are letters, digits, dot, dash and underscore" });
  }
  if (/\.(wasm|html?)$/.test(path)) problems.push({ pointer: path, message: "a surface has no file of this kind" });
  if (path.endsWith(".js")) {
    const code = new TextDecoder().decode(bytes);
    if (/(?<![\w$.])eval\s*\(|(?<![\w$.])(new\s+)?Function\s*\(/.test(code)) {
      problems.push({ pointer: path, message: "a surface cannot make code from text (eval, Function)" });
    }
  }
  return problems;
}

function quoted(path: string): string {
  return JSON.stringify(path);
}
