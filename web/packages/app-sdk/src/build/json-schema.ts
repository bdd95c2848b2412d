// As much of JSON Schema 2020-12 as the build needs: whether a schema is one, and whether a manifest fits the
// published schema of manifests. The Runtime judges again at installation, with a full validator.

import { isDeeperThan, isObject } from "../json.ts";
import { below, type Problem } from "./problems.ts";

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const MAX_SCHEMA_DEPTH = 64;
const TYPES = ["null", "boolean", "object", "array", "number", "integer", "string"];

type Fields = Readonly<Record<string, unknown>>;
type Rule = (value: unknown) => string | undefined;

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0;
const rule =
  (fits: (value: unknown) => boolean, is: string): Rule =>
  (value) =>
    fits(value) ? undefined : is;
const isNames = (value: unknown): boolean =>
  Array.isArray(value) && value.every((item) => typeof item === "string") && new Set(value).size === value.length;

const NUMBER = rule((value) => typeof value === "number" && Number.isFinite(value), "a number");
const COUNT = rule(isCount, "a whole number from 0");
const TEXT = rule((value) => typeof value === "string", "a text");
const NAMES = rule(isNames, "a list of different texts");
const PATTERN: Rule = (value) => {
  if (typeof value !== "string") return "a text";
  try {
    new RegExp(value, "u");
    return undefined;
  } catch {
    return "a regular expression";
  }
};
const isType = (value: unknown): boolean => typeof value === "string" && TYPES.includes(value);

const RULES: Readonly<Record<string, Rule>> = {
  type: rule(
    (value) =>
      isType(value) || (isNames(value) && (value as unknown[]).length > 0 && (value as unknown[]).every(isType)),
    `one or several of ${TYPES.join(", ")}`,
  ),
  enum: rule(Array.isArray, "a list"),
  multipleOf: rule((value) => typeof value === "number" && value > 0, "a number above 0"),
  maximum: NUMBER,
  exclusiveMaximum: NUMBER,
  minimum: NUMBER,
  exclusiveMinimum: NUMBER,
  maxLength: COUNT,
  minLength: COUNT,
  pattern: PATTERN,
  maxItems: COUNT,
  minItems: COUNT,
  uniqueItems: rule((value) => typeof value === "boolean", "true or false"),
  maxContains: COUNT,
  minContains: COUNT,
  maxProperties: COUNT,
  minProperties: COUNT,
  required: NAMES,
  dependentRequired: rule(
    (value) => isObject(value) && Object.values(value).every(isNames),
    "lists of different texts",
  ),
  format: TEXT,
  title: TEXT,
  description: TEXT,
  $comment: TEXT,
  $anchor: TEXT,
};
const ONE_SCHEMA = [
  "not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
  "unevaluatedProperties", "contentSchema",
]; // prettier-ignore
const SCHEMA_LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const SCHEMA_MAPS = ["properties", "patternProperties", "dependentSchemas", "$defs"];

/** What keeps `schema` from being a JSON Schema 2020-12 that refers to itself only; empty when it is one. */
export function schemaProblems(schema: unknown, pointer: string): Problem[] {
  if (!isObject(schema)) return [{ pointer, message: "a schema is an object" }];
  if (isDeeperThan(schema, MAX_SCHEMA_DEPTH)) return [{ pointer, message: "the schema is nested too deeply" }];
  const problems: Problem[] = [];
  checkSchema(schema, pointer, { root: schema, problems });
  return problems;
}

interface SchemaCheck {
  readonly root: Fields;
  readonly problems: Problem[];
}

function checkSchema(schema: unknown, pointer: string, check: SchemaCheck): void {
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) {
    check.problems.push({ pointer, message: "a schema is an object, true or false" });
    return;
  }
  for (const [keyword, value] of Object.entries(schema)) {
    const at = below(pointer, keyword);
    const wanted = Object.hasOwn(RULES, keyword) ? RULES[keyword]?.(value) : undefined;
    if (wanted !== undefined) check.problems.push({ pointer: at, message: `${keyword} is ${wanted}` });
    if (keyword === "$schema" && value !== DIALECT)
      check.problems.push({ pointer: at, message: `the dialect is ${DIALECT}` });
    if (keyword === "$id") check.problems.push({ pointer: at, message: "a schema refers to itself only" });
    if (keyword === "$ref" || keyword === "$dynamicRef") checkReference(value, at, check);
    if (ONE_SCHEMA.includes(keyword)) checkSchema(value, at, check);
    else if (SCHEMA_LISTS.includes(keyword)) checkSchemaList(value, at, check);
    else if (SCHEMA_MAPS.includes(keyword)) checkSchemaMap(value, at, keyword === "patternProperties", check);
  }
}

function checkReference(target: unknown, pointer: string, { root, problems }: SchemaCheck): void {
  if (typeof target !== "string" || !target.startsWith("#")) {
    problems.push({ pointer, message: "a schema refers to itself only" });
  } else if ((target === "#" || target.startsWith("#/")) && resolve(root, target) === undefined) {
    problems.push({ pointer, message: `there is nothing at ${target}` });
  }
}

function checkSchemaList(value: unknown, pointer: string, check: SchemaCheck): void {
  if (!Array.isArray(value) || value.length === 0) {
    check.problems.push({ pointer, message: "a list of at least one schema" });
    return;
  }
  value.forEach((one, index) => checkSchema(one, below(pointer, index), check));
}

function checkSchemaMap(value: unknown, pointer: string, byPattern: boolean, check: SchemaCheck): void {
  if (!isObject(value)) {
    check.problems.push({ pointer, message: "schemas by name" });
    return;
  }
  for (const [name, one] of Object.entries(value)) {
    if (byPattern && PATTERN(name) !== undefined) check.problems.push({ pointer, message: `'${name}' is no pattern` });
    checkSchema(one, below(pointer, name), check);
  }
}

/** Where `value` does not fit `schema`. Knows the keywords of the published schema of manifests. */
export function violations(schema: Fields, value: unknown, root: Fields = schema, pointer = ""): Problem[] {
  const target = schema["$ref"];
  if (typeof target === "string") {
    const meant = resolve(root, target);
    return isObject(meant) ? violations(meant, value, root, pointer) : [];
  }
  const branches = schema["anyOf"];
  if (Array.isArray(branches)) {
    const tried = (branches as Fields[]).map((branch) => violations(branch, value, root, pointer));
    if (tried.every((found) => found.length > 0)) return tried[0] ?? [];
  }
  const wrong = wrongness(schema, value);
  if (wrong !== undefined) return [{ pointer, message: wrong }];
  if (Array.isArray(value)) {
    const items = schema["items"];
    return isObject(items) ? value.flatMap((item, index) => violations(items, item, root, below(pointer, index))) : [];
  }
  return isObject(value) ? fieldViolations(schema, value, root, pointer) : [];
}

function fieldViolations(schema: Fields, value: Fields, root: Fields, pointer: string): Problem[] {
  const properties = (schema["properties"] ?? {}) as Readonly<Record<string, Fields>>;
  const rest = schema["additionalProperties"];
  const missing = ((schema["required"] ?? []) as string[]).filter((name) => !Object.hasOwn(value, name));
  return [
    ...missing.map((name) => ({ pointer: below(pointer, name), message: "this field is missing" })),
    ...Object.entries(value).flatMap(([name, field]) => {
      const at = below(pointer, name);
      const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
      if (known !== undefined) return violations(known, field, root, at);
      return rest === false ? [{ pointer: at, message: "there is no such field" }] : [];
    }),
  ];
}

function wrongness(schema: Fields, value: unknown): string | undefined {
  const { type, const: only, enum: words, pattern } = schema;
  const limit = (name: string, otherwise: number): number =>
    typeof schema[name] === "number" ? schema[name] : otherwise;
  if (typeof type === "string" && !isOfType(value, type)) return `this is no ${type}`;
  if (only !== undefined && value !== only) return `this is ${JSON.stringify(only)} only`;
  if (Array.isArray(words) && !words.includes(value)) return `one of ${words.join(", ")}`;
  if (typeof value === "string") {
    const length = [...value].length;
    if (typeof pattern === "string" && !new RegExp(pattern, "u").test(value))
      return `'${value}' does not match ${pattern}`;
    if (length < limit("minLength", 0)) return "the text is too short";
    if (length > limit("maxLength", Infinity)) return `longer than ${limit("maxLength", Infinity)} characters`;
  }
  if (typeof value === "number" && (value < limit("minimum", -Infinity) || value > limit("maximum", Infinity))) {
    return `${value} is out of range`;
  }
  if (Array.isArray(value) && (value.length < limit("minItems", 0) || value.length > limit("maxItems", Infinity))) {
    return `${value.length} entries are too ${value.length < limit("minItems", 0) ? "few" : "many"}`;
  }
  return undefined;
}

function isOfType(value: unknown, type: string): boolean {
  if (type === "integer") return Number.isSafeInteger(value);
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  if (type === "null") return value === null;
  return typeof value === type;
}

function resolve(root: Fields, target: string): unknown {
  let at: unknown = root;
  for (const part of target.slice(1).split("/").slice(1)) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return undefined;
    at = (at as Fields)[name];
  }
  return at;
}
