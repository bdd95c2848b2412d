// Apps written for one test each, inside the package so that they find the SDK as any app does.

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll } from "vitest";
import { BuildFailed, compileApp, type BuiltApp, type Problem } from "../src/build/index.ts";

const PACKAGE = fileURLToPath(new URL("..", import.meta.url));
const written: string[] = [];

afterAll(async () => {
  for (const folder of written.splice(0)) await rm(folder, { recursive: true, force: true });
});

export async function writeApp(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(PACKAGE, ".app-"));
  written.push(folder);
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return folder;
}

/** The source of an app: `tools` and `rest` are written into its declaration. */
export function source(tools: string, rest = "", before = ""): string {
  return `
    import { defineAgentTools, defineApp } from "@lineloop/app-sdk";
    const object = { type: "object", additionalProperties: false } as const;
    ${before}
    const tools = defineAgentTools({ ${tools} });
    export default defineApp({
      appScope: "sample", version: "1.0.0", title: "Sample",
      entrypoints: [{ id: "main", kind: "contextual" }],
      tools,
      ${rest}
    });
  `;
}

export const ECHO = `
  "sample.echo": {
    title: "Echo", callModel: "query",
    input: { type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false },
    output: { type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false },
    handler: ({ text }) => ({ text }),
  },
`;

export async function compiled(app: string, files: Readonly<Record<string, string>> = {}): Promise<BuiltApp> {
  return await compileApp(await writeApp({ "src/app.ts": app, ...files }));
}

export async function problemsOf(
  app: string,
  files: Readonly<Record<string, string>> = {},
): Promise<readonly Problem[]> {
  try {
    await compiled(app, files);
  } catch (error) {
    if (error instanceof BuildFailed) return error.problems;
    throw error;
  }
  throw new Error("the app was built");
}

export const text = (built: BuiltApp, path: string): string => new TextDecoder().decode(built.files.get(path));
