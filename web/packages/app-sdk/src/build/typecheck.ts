// Type checks of an app. The declaration is checked without any page or network in sight, because its handlers run
// where there is none; the surface is checked with the types of a browser.

import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import type { Problem } from "./problems.ts";

const run = promisify(execFile);

const OPTIONS = {
  target: "ES2022",
  module: "ESNext",
  moduleResolution: "bundler",
  moduleDetection: "force",
  strict: true,
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
  resolveJsonModule: true,
  allowImportingTsExtensions: true,
  allowJs: true,
  checkJs: false,
  skipLibCheck: true,
  jsx: "react-jsx",
  noEmit: true,
  types: [],
};

const LIBRARIES = {
  logic: ["ES2022", "ES2023.Array"],
  surface: ["ES2022", "ES2023.Array", "DOM", "DOM.Iterable"],
};

// What every place that runs an app has, and the two kinds of files that surfaces import beside modules.
const AMBIENT = {
  logic: `declare const console: Record<"debug" | "log" | "info" | "warn" | "error", (...words: unknown[]) => void>;\n`,
  surface:
    `declare module "*.css";\ndeclare module "*?url" { const url: string; export default url; }\n` +
    ["png", "webp", "jpg", "svg", "woff2"]
      .map((kind) => `declare module "*.${kind}" { const url: string; export default url; }\n`)
      .join(""),
};

/** What the type checker says about `file` of the app in `dir`; empty when it is content. */
export async function typeProblems(dir: string, file: string, kind: keyof typeof LIBRARIES): Promise<Problem[]> {
  const folder = await mkdtemp(join(tmpdir(), "lineloop-types-"));
  try {
    await writeFile(join(folder, "ambient.d.ts"), AMBIENT[kind]);
    const config = {
      compilerOptions: { ...OPTIONS, lib: LIBRARIES[kind] },
      files: [join(folder, "ambient.d.ts"), resolve(dir, file)],
    };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify(config));
    return await check(dir, folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function check(dir: string, folder: string): Promise<Problem[]> {
  const manifest = createRequire(import.meta.url).resolve("typescript/package.json");
  const compiler = join(dirname(manifest), "bin/tsc");
  try {
    await run(process.execPath, [compiler, "--pretty", "false", "-p", folder], {
      cwd: dir,
      maxBuffer: 16 * 1024 * 1024,
    });
    return [];
  } catch (error) {
    const { stdout } = error as { stdout?: string };
    if (typeof stdout !== "string" || stdout === "") throw error;
    return diagnosticsIn(stdout, dir);
  }
}

/** One problem per error; its indented lines say why and belong to it. */
function diagnosticsIn(output: string, dir: string): Problem[] {
  const problems: { pointer: string; message: string }[] = [];
  for (const line of output.split("\n")) {
    const [, file, number, message] = /^(\S.*)\((\d+),\d+\): error (.+)$/.exec(line) ?? [];
    const last = problems.at(-1);
    if (file !== undefined)
      problems.push({ pointer: `${relative(dir, resolve(dir, file))}:${number}`, message: message ?? "" });
    else if (/^\s+\S/.test(line) && last !== undefined) last.message += `\n  ${line.trim()}`;
  }
  return problems.length > 0 ? problems : [{ pointer: dir, message: output.trim() }];
}
