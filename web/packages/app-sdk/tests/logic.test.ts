import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createContext, Script, type Context } from "node:vm";
import { beforeAll, describe, expect, test } from "vitest";
import { compiled, ECHO, source, text } from "./apps.ts";

// The SDK of the logic container is the real one; only its engine is another.
const PRELUDE = new URL("../../../../src/lineloop/device/containers/sdk_prelude.js", import.meta.url);

interface Frame {
  readonly id?: string;
  readonly type: string;
  readonly payload: Readonly<Record<string, unknown>>;
}

class Container {
  readonly #context: Context = createContext({}, { codeGeneration: { strings: false, wasm: false } });
  readonly #host: (op: number, text?: string) => string;

  constructor(script: string) {
    const prelude = readFileSync(fileURLToPath(PRELUDE), "utf8");
    this.#host = new Script(prelude).runInContext(this.#context) as (op: number, text?: string) => string;
    new Script(script, { filename: "logic.js" }).runInContext(this.#context);
    const payload = { app_scope: "sample", app_session_id: "ses_1", conversation_id: "con_1" };
    this.#host(0, JSON.stringify({ v: 1, type: "init", payload }));
  }

  registered(): unknown {
    return this.#frames(this.#host(3))[0]?.payload["tools"];
  }

  async tell(frame: object): Promise<readonly Frame[]> {
    const written = this.#frames(this.#host(0, JSON.stringify({ v: 1, ...frame })));
    // Promises of the context settle between turns.
    await new Promise((done) => setImmediate(done));
    return [...written, ...this.#frames(this.#host(1))];
  }

  async invoke(method: string, params: object, version = "1"): Promise<readonly Frame[]> {
    const payload = { call_id: "call_1", method, contract_version: version, params };
    return await this.tell({ type: "tool.invoke", payload });
  }

  #frames(written: string): Frame[] {
    return written === "" ? [] : written.split("\n").map((line) => JSON.parse(line) as Frame);
  }
}

describe("the built logic in the container's SDK", () => {
  let script = "";
  beforeAll(async () => {
    const built = await compiled(
      source(
        `${ECHO}
        "sample.count": {
          title: "Count", callModel: "command", contractVersion: "2", input: object, output: COUNT, writes: true,
          handler: async (_, { session }) => {
            const { data, revision } = await session.get();
            const count = Number(data?.["count"] ?? 0) + 1;
            await session.replace({ data: { count }, expected_revision: revision });
            return { count };
          },
        },
        "sample.ask": { title: "Ask", callModel: "interactive", input: object, output: COUNT, handler: (_, call) => call.open() },
        "sample.answer": {
          title: "Answer", callModel: "command", input: object, output: object,
          handler: () => { logic().tools.complete("call_1", { count: 7 }); return {}; },
        },`,
        "",
        `import { logic } from "@lineloop/app-sdk";
        const COUNT = { type: "object", properties: { count: { type: "integer" } }, required: ["count"] } as const;`,
      ),
    );
    script = text(built, "logic.js");
  }, 60_000);

  test("registers every handler under its method and version", () => {
    expect(new Container(script).registered()).toEqual([
      { method: "sample.echo", contract_version: "1" },
      { method: "sample.count", contract_version: "2" },
      { method: "sample.ask", contract_version: "1" },
      { method: "sample.answer", contract_version: "1" },
    ]);
  });

  test("answers a call", async () => {
    const frames = await new Container(script).invoke("sample.echo", { text: "hi" });
    expect(frames).toEqual([{ v: 1, type: "tool.complete", payload: { call_id: "call_1", result: { text: "hi" } } }]);
  });

  test("reads and writes session data in a call", async () => {
    const container = new Container(script);
    const [get] = await container.invoke("sample.count", {}, "2");
    expect(get).toMatchObject({ id: "call_1/1", type: "session.get" });
    const [replace] = await container.tell({ reply_to: "call_1/1", ok: { data: { count: 4 }, revision: 9 } });
    expect(replace).toMatchObject({
      id: "call_1/2",
      type: "session.replace",
      payload: { data: { count: 5 }, expected_revision: 9 },
    });
    const [done] = await container.tell({ reply_to: "call_1/2", ok: { revision: 10 } });
    expect(done).toMatchObject({ type: "tool.complete", payload: { call_id: "call_1", result: { count: 5 } } });
  });

  test("keeps a call open until another one ends it", async () => {
    const container = new Container(script);
    expect(await container.invoke("sample.ask", {})).toMatchObject([{ type: "tool.open" }]);
    const payload = { call_id: "call_2", method: "sample.answer", contract_version: "1", params: {} };
    const ended = await container.tell({ type: "tool.invoke", payload });
    expect(ended.map(({ payload: { call_id } }) => call_id)).toEqual(["call_1", "call_2"]);
  });
});
