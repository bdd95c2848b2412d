// Describe mode: from a declaration to its manifest. Runs inside the app's own bundle, away from the build, and gives
// plain JSON: handlers, functions and private names stay behind because only what is named here is taken over.

import type { AnyTool, AppDeclaration, ToolHandler } from "../declare.ts";
import { isObject } from "../json.ts";
import type { Schema } from "../schema-types.ts";
import type { Description, Manifest, ManifestTool } from "./manifest.ts";
import type { Problem } from "./problems.ts";

export interface DeclaredTool {
  readonly method: string;
  readonly contractVersion: string;
  readonly declaration: AnyTool;
  readonly handler: ToolHandler<unknown, unknown> | undefined;
}

const TOOL_FIELDS = new Set([
  "title", "description", "input", "output", "callModel", "contractVersion", "delivery", "execution", "activation",
  "timeoutMs", "idempotency", "risk", "capabilities", "autoLaunch", "writes", "handler",
]); // prettier-ignore

export function describe(app: AppDeclaration): Description {
  const problems: Problem[] = [];
  const tools = toolsOf(app);
  const manifest = {
    format: "lineloop.app.v1",
    app_scope: app.appScope,
    version: app.version,
    title: app.title,
    ...(app.publisherKeyId === undefined ? {} : { publisher_key_id: app.publisherKeyId }),
    ...(app.seq === undefined ? {} : { seq: app.seq }),
    runtime_sdk: {
      api_version: "1",
      required_features: app.features?.required ?? ["app.lifecycle.v1", ...(tools.length > 0 ? ["app.tools.v1"] : [])],
      optional_features: app.features?.optional ?? [],
    },
    session: app.session ?? "per_conversation",
    entrypoints: app.entrypoints.map(({ id, kind, defaultEligible = false }) => ({
      id,
      kind,
      default_eligible: defaultEligible,
    })),
    agent_subscriptions: (app.agentSubscriptions ?? []).map(({ type, scope }) => ({ type, scope })),
    ui_actions: (app.uiActions ?? []).map(({ name, schema, needsGesture = false, writes = false }, index) => ({
      name,
      schema: jsonSchema(schema, "input", `/ui_actions/${index}/schema`, problems),
      ...(needsGesture ? { needs_gesture: true } : {}),
      ...(writes ? { writes: true } : {}),
    })),
    mutations: (app.mutations ?? []).map(({ name, params }, index) => ({
      name,
      params_schema: jsonSchema(params, "input", `/mutations/${index}/params_schema`, problems),
    })),
    ...(app.events === undefined
      ? {}
      : {
          events: app.events.map(({ name, schema }, index) => ({
            name,
            schema: jsonSchema(schema, "input", `/events/${index}/schema`, problems),
          })),
        }),
    capabilities: (app.capabilities ?? []).map(({ name, purpose }) => ({ name, purpose })),
    tools: tools.map((tool, index) => describeTool(tool, `/tools/${index}`, problems)),
    ...(app.surface === undefined ? {} : { surface: { entry: "surface/main.js", csp_mode: "strict" } }),
    ...(tools.some(({ handler }) => handler !== undefined) ? { logic: "logic.js" } : {}),
    ...(app.icon === undefined ? {} : { icon: app.icon }),
  } as unknown as Manifest;
  checkHandlers(app, tools, problems);
  return { manifest, surfaceSource: app.surface?.entry ?? null, problems };
}

/** Every declared tool with the handler that serves it, in the order of the source. */
export function toolsOf(app: AppDeclaration): DeclaredTool[] {
  const groups = Array.isArray(app.tools) ? app.tools : [app.tools ?? {}];
  const apart = (app.handlers ?? {}) as Readonly<Record<string, ToolHandler<unknown, unknown> | undefined>>;
  return groups.flatMap((group: Readonly<Record<string, AnyTool>>) =>
    Object.entries(group).map(([method, declaration]) => {
      const own = declaration.handler as ToolHandler<unknown, unknown> | undefined;
      const handler = own ?? (Object.hasOwn(apart, method) ? apart[method] : undefined);
      return { method, contractVersion: declaration.contractVersion ?? "1", declaration, handler };
    }),
  );
}

function describeTool(
  { method, contractVersion, declaration: tool, handler }: DeclaredTool,
  pointer: string,
  problems: Problem[],
): ManifestTool {
  for (const field of Object.keys(tool)) {
    if (!TOOL_FIELDS.has(field)) problems.push({ pointer, message: `${method}: a tool has no field '${field}'` });
  }
  const delivery = tool.delivery ?? "miniapp_sdk";
  if (handler !== undefined && typeof handler !== "function")
    problems.push({ pointer, message: `${method}: the handler is no function` });
  if (delivery === "miniapp_sdk" && handler === undefined)
    problems.push({ pointer, message: `${method} has no handler` });
  if (delivery === "runtime" && handler !== undefined) {
    problems.push({ pointer, message: `${method} is the Runtime's to serve: it has no handler` });
  }
  const { execution } = tool;
  return {
    method,
    contract_version: contractVersion,
    title: tool.title,
    description: tool.description ?? "",
    input_schema: jsonSchema(tool.input, "input", `${pointer}/input_schema`, problems),
    output_schema: jsonSchema(tool.output, "output", `${pointer}/output_schema`, problems),
    call_model: tool.callModel,
    delivery,
    ...(execution === undefined ? {} : { execution: describeExecution(execution) }),
    activation_requirement: tool.activation ?? "app_ready",
    timeout_ms: tool.timeoutMs ?? 30_000,
    idempotency: tool.idempotency ?? "call_id",
    risk: tool.risk ?? "low",
    capabilities: tool.capabilities ?? [],
    auto_launch: tool.autoLaunch ?? true,
    ...(tool.writes === true ? { writes: true } : {}),
  };
}

function describeExecution({
  name,
  durationFrom,
  onLeave,
  outcomes,
}: NonNullable<AnyTool["execution"]>): NonNullable<ManifestTool["execution"]> {
  return {
    name,
    ...(durationFrom === undefined ? {} : { duration_from: { param: durationFrom.param, unit: durationFrom.unit } }),
    ...(onLeave === undefined ? {} : { on_leave: onLeave }),
    outcomes,
  };
}

function checkHandlers(app: AppDeclaration, tools: readonly DeclaredTool[], problems: Problem[]): void {
  for (const method of Object.keys(app.handlers ?? {})) {
    const declared = tools.filter((tool) => tool.method === method);
    if (declared.length === 0)
      problems.push({ pointer: "/tools", message: `there is a handler for '${method}', which is not declared` });
    if (declared.some(({ declaration }) => declaration.handler !== undefined)) {
      problems.push({ pointer: "/tools", message: `'${method}' has two handlers` });
    }
  }
}

/** The JSON Schema of a schema of any kind, as plain JSON. */
function jsonSchema(
  schema: Schema,
  direction: "input" | "output",
  pointer: string,
  problems: Problem[],
): Readonly<Record<string, unknown>> {
  const failed = (message: string): Readonly<Record<string, unknown>> => {
    problems.push({ pointer, message });
    return {};
  };
  const standard = (
    schema as
      { "~standard"?: { vendor?: string; jsonSchema?: Record<string, (options: unknown) => unknown> } } | undefined
  )?.["~standard"];
  let plain: unknown = schema;
  if (standard !== undefined) {
    const convert = standard.jsonSchema?.[direction];
    if (convert === undefined)
      return failed(`a schema of ${standard.vendor ?? "this library"} cannot tell its JSON Schema`);
    try {
      plain = convert({ target: "draft-2020-12" });
    } catch (error) {
      return failed(
        `the schema cannot be told as JSON Schema: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }
  if (!isObject(plain)) return failed("a schema is an object");
  const strange = notJson(plain, pointer, new Set());
  return strange === undefined ? plain : failed(`${strange} is no JSON`);
}

/** The pointer of the first thing that JSON cannot say; undefined when it can say all. */
function notJson(value: unknown, pointer: string, above: Set<unknown>): string | undefined {
  if (value === null || typeof value === "string" || typeof value === "boolean") return undefined;
  if (typeof value === "number") return Number.isFinite(value) ? undefined : pointer;
  if (typeof value !== "object" || above.has(value)) return pointer;
  const kind = Object.getPrototypeOf(value) as unknown;
  if (!Array.isArray(value) && kind !== Object.prototype && kind !== null) return pointer;
  above.add(value);
  for (const [name, field] of Object.entries(value)) {
    const found = notJson(field, `${pointer}/${name}`, above);
    if (found !== undefined) return found;
  }
  above.delete(value);
  return undefined;
}
