import { describe, expectTypeOf, test } from "vitest";
import { defineAgentTools, defineApp, type Handlers, type InputOf, type StandardSchema } from "../src/index.ts";

describe("types of handlers follow from their schemas", () => {
  test("JSON Schema", () => {
    const tools = defineAgentTools({
      "todo.add": {
        title: "Add",
        callModel: "command",
        input: {
          type: "object",
          properties: {
            text: { type: "string" },
            tags: { type: "array", items: { enum: ["home", "work"] } },
            due: { type: ["string", "null"] },
          },
          required: ["text"],
          additionalProperties: false,
        },
        output: {
          type: "object",
          properties: { count: { type: "integer" } },
          required: ["count"],
          additionalProperties: false,
        },
        handler: async (params, context) => {
          expectTypeOf(params).toEqualTypeOf<{
            readonly text: string;
            readonly tags?: readonly ("home" | "work")[];
            readonly due?: string | null;
          }>();
          expectTypeOf(context.callId).toEqualTypeOf<string>();
          return { count: params.text.length };
        },
      },
      "todo.clear": {
        title: "Clear",
        callModel: "command",
        input: { type: "object", additionalProperties: false },
        output: { type: "object", properties: { ok: { const: true } }, required: ["ok"], additionalProperties: false },
        // @ts-expect-error the result does not fit its schema
        handler: () => ({ ok: "yes" }),
      },
    });
    const handlers: Handlers<typeof tools> = { "todo.clear": () => ({ ok: true }) };
    // @ts-expect-error there is no such method
    const wrong: Handlers<typeof tools> = { "todo.remove": () => ({ ok: true }) };
    defineApp({ appScope: "todo", version: "1.0.0", title: "To-do", entrypoints: [], tools, handlers });
    void wrong;
  });

  test("Standard Schema", () => {
    const text: StandardSchema<{ text: string }, { text: string; at: number }> = {
      "~standard": {
        version: 1,
        vendor: "test",
        jsonSchema: { input: () => ({ type: "object" }), output: () => ({ type: "object" }) },
      },
    };
    expectTypeOf<InputOf<typeof text>>().toEqualTypeOf<{ text: string }>();
    defineAgentTools({
      "note.keep": {
        title: "Keep",
        callModel: "query",
        input: text,
        output: text,
        handler: (params) => ({ text: params.text, at: 1 }),
      },
    });
  });
});
