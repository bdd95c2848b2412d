import { describe as group, expect, test } from "vitest";
import { describe } from "../src/build/describe.ts";
import { judge } from "../src/build/index.ts";

// Declarations as plain objects: what the types would forbid can be said here too.
type Fields = Readonly<Record<string, unknown>>;

const OBJECT = { type: "object", additionalProperties: false };
const handler = (): object => ({});
const tool = (fields: Fields = {}): Fields => ({
  title: "Do",
  callModel: "query",
  input: OBJECT,
  output: OBJECT,
  handler,
  ...fields,
});
const TIMER = {
  title: "Start",
  callModel: "operation",
  delivery: "runtime",
  input: {
    type: "object",
    properties: { minutes: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["minutes"],
  },
  output: { type: "object", properties: { outcome: { enum: ["completed", "interrupted"] } } },
  execution: {
    name: "deadline.start",
    durationFrom: { param: "minutes", unit: "minutes" },
    outcomes: ["completed", "interrupted"],
  },
};
const timer = (fields: Fields, execution: Fields = {}): Fields => ({
  "sample.start": { ...TIMER, execution: { ...TIMER.execution, ...execution }, ...fields },
});

function problems(tools: unknown, rest: Fields = {}): string[] {
  const app = {
    appScope: "sample",
    version: "1.0.0",
    title: "Sample",
    entrypoints: [{ id: "main", kind: "contextual" }],
    tools,
    ...rest,
  };
  return judge(describe(app as never)).map(({ pointer, message }) => `${pointer}: ${message}`);
}

group("an app that says nothing wrong", () => {
  test.each<[string, unknown, Fields?]>([
    ["a handler in its declaration", { "sample.do": tool() }],
    ["a handler apart from it", { "sample.do": tool({ handler: undefined }) }, { handlers: { "sample.do": handler } }],
    ["two versions of one method", [{ "sample.do": tool() }, { "sample.do": tool({ contractVersion: "2" }) }]],
    ["a runtime tool", timer({})],
    [
      "a declared capability",
      { "sample.do": tool({ capabilities: ["files.save"] }) },
      { capabilities: [{ name: "files.save", purpose: "Saves." }] },
    ],
    [
      "a schema that refers to itself",
      {
        "sample.do": tool({
          input: { $ref: "#/$defs/a%20b", $defs: { "a b": { anyOf: [true, { not: { $ref: "#" } }] } } },
        }),
      },
    ],
    ["no tools at all", undefined],
  ])("%s", (_, tools, rest) => {
    expect(problems(tools, rest)).toEqual([]);
  });
});

group("an app is refused for", () => {
  const writing = { uiActions: [{ name: "edit", schema: OBJECT, writes: true }] };
  test.each<[string, unknown, RegExp, Fields?]>([
    [
      "a method that two groups declare",
      [{ "sample.do": tool() }, { "sample.do": tool() }],
      /^\/tools\/1: 'sample\.do@1' is declared twice$/,
    ],
    [
      "two methods under one name for models",
      { "sample.a_b": tool(), "sample.a.b": tool() },
      /^\/tools\/1\/method: .*under one name$/,
    ],
    [
      "a schema of no known type",
      { "sample.do": tool({ input: { type: "text" } }) },
      /^\/tools\/0\/input_schema\/type: /,
    ],
    [
      "a schema deep inside that is none",
      { "sample.do": tool({ input: { properties: { a: { items: [1] } } } }) },
      /input_schema\/properties\/a\/items: /,
    ],
    [
      "a pattern that is none",
      { "sample.do": tool({ output: { properties: { a: { pattern: "(" } } } }) },
      /output_schema\/properties\/a\/pattern: /,
    ],
    [
      "a bound that is no number",
      { "sample.do": tool({ input: { maxLength: -1 } }) },
      /\/maxLength: maxLength is a whole number from 0$/,
    ],
    [
      "another dialect",
      { "sample.do": tool({ input: { $schema: "http://json-schema.org/draft-07/schema#" } }) },
      /\/\$schema: the dialect is /,
    ],
    [
      "a reference outside itself",
      { "sample.do": tool({ output: { $ref: "other.json#/a" } }) },
      /\/output_schema\/\$ref: .*itself only$/,
    ],
    [
      "a reference to nothing",
      { "sample.do": tool({ output: { $ref: "#/$defs/none" } }) },
      /\/output_schema\/\$ref: there is nothing at /,
    ],
    [
      "a function in a schema",
      { "sample.do": tool({ input: { default: handler } }) },
      /input_schema\/default is no JSON$/,
    ],
    [
      "a schema library that tells no JSON Schema",
      { "sample.do": tool({ input: { "~standard": { version: 1, vendor: "old" } } }) },
      /a schema of old cannot tell/,
    ],
    [
      "an app's tool without a handler",
      { "sample.do": tool({ handler: undefined }) },
      /^\/tools\/0: sample\.do has no handler$/,
    ],
    ["a handler that is no function", { "sample.do": tool({ handler: "run" }) }, /the handler is no function$/],
    [
      "a handler for an undeclared method",
      { "sample.do": tool() },
      /handler for 'sample\.other', which is not declared$/,
      { handlers: { "sample.other": handler } },
    ],
    [
      "two handlers for one method",
      { "sample.do": tool() },
      /'sample\.do' has two handlers$/,
      { handlers: { "sample.do": handler } },
    ],
    ["a field that tools do not have", { "sample.do": tool({ callback: "x" }) }, /a tool has no field 'callback'$/],
    [
      "an unknown execution",
      timer({}, { name: "deadline.pause" }),
      /^\/tools\/0\/execution\/name: the Runtime has no execution 'deadline\.pause'$/,
    ],
    [
      "a name of Object.prototype as execution",
      timer({}, { name: "constructor" }),
      /the Runtime has no execution 'constructor'$/,
    ],
    [
      "an execution with another call model",
      timer({ callModel: "query" }),
      /^\/tools\/0\/call_model: deadline\.start is a operation$/,
    ],
    [
      "an execution with another activation",
      timer({ activation: "activation_not_required" }),
      /^\/tools\/0\/activation_requirement: /,
    ],
    ["an execution that may not be repeated", timer({ idempotency: "none" }), /^\/tools\/0\/idempotency: /],
    ["a deadline without a duration", timer({}, { durationFrom: undefined }), /needs a duration$/],
    [
      "a duration that no parameter holds",
      timer({}, { durationFrom: { param: "hours", unit: "hours" } }),
      /no required parameter/,
    ],
    ["a duration without end", timer({}, { durationFrom: { param: "minutes", unit: "weeks" } }), /./],
    [
      "an outcome that the Runtime does not give",
      timer({}, { outcomes: ["completed", "interrupted", "eaten"] }),
      /not an outcome of deadline\.start: eaten$/,
    ],
    ["outcomes that the output schema lacks", timer({ output: OBJECT }), /\/output_schema\/properties\/outcome: /],
    [
      "an interrupt without its deadline",
      { "sample.stop": { ...TIMER, callModel: "command", execution: { name: "deadline.interrupt", outcomes: [] } } },
      /needs a tool with deadline\.start$/,
    ],
    [
      "a runtime tool without an execution",
      { "sample.do": tool({ delivery: "runtime", handler: undefined }) },
      /^\/tools\/0\/execution: /,
    ],
    ["an execution without delivery runtime", timer({ delivery: "miniapp_sdk", handler }), /^\/tools\/0\/execution: /],
    ["a runtime tool with a handler", timer({ handler }), /it has no handler$/],
    [
      "an undeclared capability",
      { "sample.do": tool({ capabilities: ["files.save"] }) },
      /uses 'files\.save', which the app does not declare$/,
    ],
    ["two sides that write without mutations", { "sample.do": tool({ writes: true }) }, /^\/mutations: /, writing],
    [
      "an address in a description",
      { "sample.do": tool({ description: "See https://example.org" }) },
      /^\/tools\/0\/description: .*no address$/,
    ],
    [
      "an address in a schema",
      { "sample.do": tool({ input: { ...OBJECT, $comment: "ftp://example.org" } }) },
      /input_schema\/\$comment: .*no address$/,
    ],
    ["a reserved scope", {}, /^\/app_scope: chat belongs to the Runtime$/, { appScope: "chat" }],
    ["a version of another form", {}, /^\/version: /, { version: "1" }],
    ["a tool without a title", { "sample.do": tool({ title: undefined }) }, /^\/tools\/0\/title: /],
    ["a method of another form", { Do: tool() }, /^\/tools\/0\/method: /],
    ["a time-out out of range", { "sample.do": tool({ timeoutMs: 0 }) }, /^\/tools\/0\/timeout_ms: /],
    ["no entrypoint", {}, /^\/entrypoints: /, { entrypoints: [] }],
    [
      "an entrypoint twice",
      {},
      /^\/entrypoints\/1: 'main' is declared twice$/,
      {
        entrypoints: [
          { id: "main", kind: "default" },
          { id: "main", kind: "default" },
        ],
      },
    ],
    [
      "a capability without a purpose",
      {},
      /^\/capabilities\/0\/purpose: /,
      { capabilities: [{ name: "files.save", purpose: "" }] },
    ],
  ])("%s", (_, tools, wanted, rest) => {
    expect(problems(tools, rest).join("\n")).toMatch(new RegExp(wanted.source, "m"));
  });
});
