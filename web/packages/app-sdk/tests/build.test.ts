import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createContext, Script } from "node:vm";
import { describe, expect, test, vi } from "vitest";
import { buildApp } from "../src/build/index.ts";
import { compiled, ECHO, problemsOf, source, text, writeApp } from "./apps.ts";

const SURFACE = {
  "src/surface/main.ts": `
    import { connect } from "@lineloop/app-sdk";
    import "./style.css";
    import dot from "./dot.png";
    const button = document.createElement("button");
    button.onclick = () => void import("./later.ts").then(({ later }) => later(dot));
    document.body.append(button);
    void connect();
  `,
  "src/surface/later.ts": `export function later(dot: string): void { document.title = dot; }`,
  "src/surface/style.css": "body { margin: 0; background: url(./dot.png) }",
  "src/surface/dot.png": "not really a picture",
};

vi.setConfig({ testTimeout: 60_000 });

describe("a build", () => {
  test("writes the tools of the source into the manifest, and nothing that runs", async () => {
    const built = await compiled(
      source(
        `${ECHO}
        "sample.keep": {
          title: "Keep", description: "Keeps a note.", callModel: "command", contractVersion: "2", risk: "medium",
          input: object, output: object, idempotency: "none", timeoutMs: 5_000, autoLaunch: false, writes: true,
          capabilities: ["files.save"], handler: async () => privately(),
        },`,
        `capabilities: [{ name: "files.save", purpose: "Saves notes." }],
         uiActions: [{ name: "note.edit", schema: object, writes: true }],
         mutations: [{ name: "note.put", params: object }],
         events: [{ name: "note.opened", schema: object }],
         agentSubscriptions: [{ type: "lineup.content.*", scope: "conversation" }],`,
        `const privately = (): {} => ({});`,
      ),
    );
    const { manifest } = built;
    expect(manifest.logic).toBe("logic.js");
    expect(manifest["runtime_sdk"]).toEqual({
      api_version: "1",
      required_features: ["app.lifecycle.v1", "app.tools.v1"],
      optional_features: [],
    });
    expect(manifest.tools[1]).toEqual({
      method: "sample.keep",
      contract_version: "2",
      title: "Keep",
      description: "Keeps a note.",
      input_schema: { type: "object", additionalProperties: false },
      output_schema: { type: "object", additionalProperties: false },
      call_model: "command",
      delivery: "miniapp_sdk",
      activation_requirement: "app_ready",
      timeout_ms: 5_000,
      idempotency: "none",
      risk: "medium",
      capabilities: ["files.save"],
      auto_launch: false,
      writes: true,
    });
    const written = text(built, "manifest.json");
    expect(JSON.parse(written)).toEqual(manifest);
    expect(written).not.toMatch(/handler|privately|=>|function|src\//);
  });

  test("gives the logic container one script without a page that defines every handler", async () => {
    const built = await compiled(
      source(
        `${ECHO} "sample.apart": { title: "Apart", callModel: "query", contractVersion: "3", input: object, output: object },`,
        `handlers: { "sample.apart": () => ({}) },`,
      ),
    );
    const defined = new Map<string, { handler: (params: unknown) => unknown; contractVersion: string }>();
    const defineAgentTools = (tools: object): void => {
      for (const [method, one] of Object.entries(tools)) defined.set(method, one as never);
    };
    new Script(text(built, "logic.js")).runInContext(createContext({ defineAgentTools }));
    expect([...defined].map(([method, { contractVersion }]) => [method, contractVersion])).toEqual([
      ["sample.echo", "1"],
      ["sample.apart", "3"],
    ]);
    expect(defined.get("sample.echo")?.handler({ text: "hi" })).toEqual({ text: "hi" });
  });

  test("makes a surface of relative modules, one style sheet and files with their own names", async () => {
    const built = await compiled(source(ECHO, `surface: { entry: "src/surface/main.ts" },`), SURFACE);
    expect(built.manifest.surface).toEqual({ entry: "surface/main.js", csp_mode: "strict" });
    const names = [...built.files.keys()].map((name) => name.replace(/-[\w-]{8}\./, "-#."));
    expect(names).toEqual([
      "manifest.json",
      "logic.js",
      "surface/dot-#.png",
      "surface/later-#.js",
      "surface/main.css",
      "surface/main.js",
    ]);
    const code = text(built, "surface/main.js");
    expect(code).toContain("import.meta.url");
    expect(code).not.toMatch(/https?:\/\/|["'`]\/(surface|assets|src)\//);
    expect(text(built, "surface/main.css")).toMatch(/url\(\.?\/?dot-[\w-]{8}\.png\)/);
  });

  test("gives equal bytes for equal source, wherever it lies", async () => {
    const app = source(ECHO, `surface: { entry: "src/surface/main.ts" },`);
    const [first, second] = [await compiled(app, SURFACE), await compiled(app, SURFACE)];
    expect([...first.files.keys()]).toEqual([...second.files.keys()]);
    for (const path of first.files.keys()) expect(text(second, path)).toBe(text(first, path));
  });

  test("takes schemas of any library that can tell its JSON Schema", async () => {
    const before = `
      import type { StandardSchema } from "@lineloop/app-sdk";
      const note: StandardSchema<{ text: string }> = { "~standard": { version: 1, vendor: "test", jsonSchema: {
        input: ({ target }) => ({ type: "object", title: target, properties: { text: { type: "string" } } }),
        output: () => ({ type: "object", properties: { text: { const: "kept" } } }),
      } } };
    `;
    const built = await compiled(
      source(
        `"sample.note": { title: "Note", callModel: "query", input: note, output: note, handler: (n) => n },`,
        "",
        before,
      ),
    );
    expect(built.manifest.tools[0]).toMatchObject({
      input_schema: { type: "object", title: "draft-2020-12", properties: { text: { type: "string" } } },
      output_schema: { type: "object", properties: { text: { const: "kept" } } },
    });
  });

  test("clears away what an earlier build left and writes only what changed", async () => {
    const folder = await writeApp({
      "src/app.ts": source(ECHO, `surface: { entry: "src/surface/main.ts" },`),
      "surface/old-12345678.js": "old",
      ...SURFACE,
    });
    const built = await buildApp(folder);
    await expect(readFile(join(folder, "surface/old-12345678.js"))).rejects.toThrow();
    for (const [path, bytes] of built.files) {
      expect((await readFile(join(folder, path))).equals(bytes)).toBe(true);
    }
  });
});

test("the example of the README builds", async () => {
  const readme = await readFile(fileURLToPath(new URL("../README.md", import.meta.url)), "utf8");
  const [app, surface] = [...readme.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code ?? "");
  const built = await compiled(app ?? "", {
    "src/surface/main.ts": `const draw = (_: unknown): void => undefined; const drawNotes = draw; ${surface ?? ""}`,
  });
  expect([...built.files.keys()]).toEqual(["manifest.json", "logic.js", "surface/main.js"]);
});

describe("a build fails on", () => {
  test("handlers that do not fit their schemas, methods given twice and code that needs a page", async () => {
    const problems = await problemsOf(
      source(
        `
        ${ECHO}
        ${ECHO}
        "sample.result": { title: "R", callModel: "query", input: object, output: NUMBER, handler: () => ({ n: "one" }) },
        "sample.params": { title: "P", callModel: "query", input: NUMBER, output: object, handler: ({ m }) => ({}) },
        "sample.page": { title: "D", callModel: "query", input: object, output: object, handler: () => void document.title },
        "sample.net": { title: "N", callModel: "query", input: object, output: object, handler: () => void fetch("x") },
      `,
        `handlers: { "sample.echo": () => 1 },`,
        `const NUMBER = { type: "object", properties: { n: { type: "number" } }, required: ["n"], additionalProperties: false } as const;`,
      ),
    );
    const lines = problems.map(({ pointer, message }) => `${pointer}: ${message}`).join("\n");
    for (const wanted of [
      /TS1117: /,
      /'string' is not assignable to type 'number'/,
      /'m' does not exist/,
      /'document'/,
      /'fetch'/,
      /'\(\) => number' is not assignable/,
    ]) {
      expect(lines).toMatch(wanted);
    }
    expect(problems.every(({ pointer }) => /^src\/app\.ts:\d+$/.test(pointer))).toBe(true);
  });

  test("what would be refused at installation", async () => {
    const problems = await problemsOf(
      source(`"sample.do": { title: "Do", callModel: "query", input: object, output: object },`),
    );
    expect(problems).toEqual([{ pointer: "/tools/0", message: "sample.do has no handler" }]);
  });

  test("a declaration that cannot be run", async () => {
    const problems = await problemsOf(source(ECHO, "", `if (object.type === "object") throw new Error("on purpose");`));
    expect(problems).toEqual([{ pointer: "src/app.ts", message: "the declaration cannot be run: on purpose" }]);
  });

  test.each([
    [`surface: { entry: "src/nowhere.ts" },`, "/surface/entry: there is no src/nowhere.ts"],
    [`icon: "icon.svg",`, "/icon: an icon is a png, webp or jpeg"],
  ])("files that are missing or of the wrong kind: %s", async (rest, wanted) => {
    await expect(compiled(source(ECHO, rest))).rejects.toThrow(wanted);
  });

  test("a surface that makes code from text", async () => {
    const app = source(ECHO, `surface: { entry: "src/surface.ts" },`);
    const problems = await problemsOf(app, { "src/surface.ts": `document.title = new Function("return 1")();` });
    expect(problems).toEqual([{ pointer: "surface/main.js", message: expect.stringContaining("eval") as string }]);
  });

  test("an app without a source", async () => {
    const folder = await writeApp({ "README.md": "nothing" });
    await expect(buildApp(folder)).rejects.toThrow("there is no src/app.ts");
  });
});
