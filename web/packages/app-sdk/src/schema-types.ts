// From a schema to the type of the values that it takes. JSON Schema is followed as far as types can say it: patterns
// and bounds are the Runtime's to check. What is not understood becomes `unknown`, never something wrong.

import type { JsonObject } from "./json.ts";

/** A schema of any library that speaks Standard JSON Schema (standardschema.dev/json-schema). */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    readonly jsonSchema: {
      readonly input: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
      readonly output: (options: { readonly target: "draft-2020-12" }) => Record<string, unknown>;
    };
  };
}

/** A JSON Schema 2020-12 object, or a schema that can tell one. */
export type Schema = JsonObject | StandardSchema<any, any>; // eslint-disable-line @typescript-eslint/no-explicit-any

/** What comes in under this schema. */
export type InputOf<S> = S extends StandardSchema<infer Input, infer _> ? Input : FromJsonSchema<S>;
/** What has to go out under this schema. */
export type OutputOf<S> = S extends StandardSchema<infer _, infer Output> ? Output : FromJsonSchema<S>;

export type FromJsonSchema<S> = S extends { readonly const: infer Value }
  ? Value
  : S extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : S extends { readonly anyOf: readonly (infer Branch)[] }
      ? FromEach<Branch>
      : S extends { readonly oneOf: readonly (infer Branch)[] }
        ? FromEach<Branch>
        : S extends { readonly type: infer Type }
          ? FromType<S, Type>
          : unknown;

type FromEach<Branch> = Branch extends unknown ? FromJsonSchema<Branch> : never;

type FromType<S, Type> = Type extends readonly (infer One)[] ? FromOneType<S, One> : FromOneType<S, Type>;

type FromOneType<S, Type> = Type extends "string"
  ? string
  : Type extends "number" | "integer"
    ? number
    : Type extends "boolean"
      ? boolean
      : Type extends "null"
        ? null
        : Type extends "array"
          ? FromArray<S>
          : Type extends "object"
            ? FromObject<S>
            : unknown;

type FromArray<S> = S extends { readonly items: infer Items } ? readonly FromJsonSchema<Items>[] : readonly unknown[];

type FromObject<S> = S extends { readonly properties: infer Properties }
  ? Flat<
      { readonly [Name in keyof Properties & Required<S>]: FromJsonSchema<Properties[Name]> } & {
        readonly [Name in Exclude<keyof Properties, Required<S>>]?: FromJsonSchema<Properties[Name]>;
      } & Rest<S>
    >
  : S extends { readonly additionalProperties: false }
    ? Readonly<Record<string, never>>
    : S extends { readonly additionalProperties: infer Values extends JsonObject }
      ? Readonly<Record<string, FromJsonSchema<Values>>>
      : Readonly<Record<string, unknown>>;

type Required<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never;
type Rest<S> = S extends { readonly additionalProperties: false } ? unknown : { readonly [name: string]: unknown };
type Flat<T> = { [Name in keyof T]: T[Name] };
