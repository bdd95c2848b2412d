// Whether a tool with `delivery: runtime` is declared as its built-in execution asks; equal to
// src/lineloop/device/executions.py, from which the table is generated.

import { isObject } from "../json.ts";
import { EXECUTIONS, MAX_DURATION_MS } from "./executions.generated.ts";
import type { ManifestTool } from "./manifest.ts";
import type { Problem } from "./problems.ts";

export interface BuiltIn {
  readonly call_model: string;
  readonly requirements: readonly string[];
  readonly takes_duration: boolean;
  readonly outcomes: readonly string[];
  readonly required_outcomes: readonly string[];
  readonly companion: string | null;
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, seconds: 1_000, minutes: 60_000, hours: 3_600_000 };

type Complain = (pointer: string, message: string) => void;

export function executionProblems(tools: readonly ManifestTool[]): Problem[] {
  const problems: Problem[] = [];
  const named = new Set(tools.map((tool) => tool.execution?.name));
  tools.forEach((tool, index) => {
    const complain: Complain = (pointer, message) => problems.push({ pointer: `/tools/${index}${pointer}`, message });
    if ((tool.delivery === "runtime") !== (tool.execution !== undefined)) {
      complain("/execution", "an execution is given for delivery runtime, and only there");
    } else if (tool.execution !== undefined) {
      checkTool(tool, tool.execution, named, complain);
    }
  });
  return problems;
}

function checkTool(
  tool: ManifestTool,
  execution: NonNullable<ManifestTool["execution"]>,
  named: ReadonlySet<string | undefined>,
  complain: Complain,
): void {
  const builtIn = Object.hasOwn(EXECUTIONS, execution.name) ? EXECUTIONS[execution.name] : undefined;
  if (builtIn === undefined) {
    complain("/execution/name", `the Runtime has no execution '${execution.name}'`);
    return;
  }
  if (tool.call_model !== builtIn.call_model) complain("/call_model", `${execution.name} is a ${builtIn.call_model}`);
  if (!builtIn.requirements.includes(tool.activation_requirement)) {
    complain("/activation_requirement", `${execution.name} needs ${builtIn.requirements.join(" or ")}`);
  }
  if (tool.idempotency !== "call_id") {
    complain("/idempotency", "the Runtime's own executions are idempotent by call_id");
  }
  if (builtIn.companion !== null && !named.has(builtIn.companion)) {
    complain("/execution/name", `${execution.name} needs a tool with ${builtIn.companion}`);
  }
  checkDuration(tool, execution, builtIn, complain);
  checkOutcomes(tool, execution, builtIn, complain);
}

function checkDuration(
  tool: ManifestTool,
  { name, duration_from: from }: NonNullable<ManifestTool["execution"]>,
  builtIn: BuiltIn,
  complain: Complain,
): void {
  if (!builtIn.takes_duration || from === undefined) {
    if (builtIn.takes_duration) complain("/execution/duration_from", `${name} needs a duration`);
    else if (from !== undefined) complain("/execution/duration_from", `${name} takes no duration`);
    return;
  }
  const parameter = property(tool.input_schema, from.param);
  const { required } = tool.input_schema;
  if (parameter === undefined || !Array.isArray(required) || !required.includes(from.param)) {
    complain("/execution/duration_from/param", "this is no required parameter of the tool");
    return;
  }
  const pointer = `/input_schema/properties/${from.param}`;
  const { type, minimum, maximum } = parameter;
  if (type !== "integer" && type !== "number") complain(pointer, "a duration is a number");
  else if (typeof minimum !== "number" || typeof maximum !== "number" || minimum <= 0) {
    complain(pointer, "a duration has a minimum above 0 and a maximum");
  } else if (maximum * (UNIT_MS[from.unit] ?? Infinity) > MAX_DURATION_MS) {
    complain(pointer, "a duration is at most 7 days");
  }
}

function checkOutcomes(
  tool: ManifestTool,
  { name, outcomes }: NonNullable<ManifestTool["execution"]>,
  builtIn: BuiltIn,
  complain: Complain,
): void {
  const missing = builtIn.required_outcomes.filter((word) => !outcomes.includes(word));
  const unknown = outcomes.filter((word) => !builtIn.outcomes.includes(word));
  if (missing.length > 0) complain("/execution/outcomes", `missing: ${missing.join(", ")}`);
  if (unknown.length > 0) complain("/execution/outcomes", `not an outcome of ${name}: ${unknown.join(", ")}`);
  const words = property(tool.output_schema, "outcome")?.["enum"];
  if (!Array.isArray(words) || !outcomes.every((word) => words.includes(word))) {
    complain("/output_schema/properties/outcome", "an enum that holds every declared outcome");
  }
}

function property(
  schema: Readonly<Record<string, unknown>>,
  name: string,
): Readonly<Record<string, unknown>> | undefined {
  const { properties } = schema;
  if (!isObject(properties) || !Object.hasOwn(properties, name)) return undefined;
  const found = properties[name];
  return isObject(found) ? found : undefined;
}
