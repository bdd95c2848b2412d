// Whether a described app may become a bundle: everything that would be refused at installation is refused here.

import { readFileSync } from "node:fs";
import { executionProblems } from "./executions.ts";
import { schemaProblems, violations } from "./json-schema.ts";
import type { Manifest } from "./manifest.ts";
import { below, type Problem } from "./problems.ts";

const RESERVED = ["runtime", "chat", "app-registry", "settings"];
const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const MANIFEST_SCHEMA = new URL("../../../../../spec/schema/app-manifest.json", import.meta.url);

export function manifestProblems(manifest: Manifest): Problem[] {
  const shape = JSON.parse(readFileSync(MANIFEST_SCHEMA, "utf8")) as Readonly<Record<string, unknown>>;
  // A tool's app_scope is its app's; manifests do not repeat it.
  const { app_scope } = manifest;
  const completed = { ...manifest, tools: manifest.tools.map((tool) => ({ app_scope, ...tool })) };
  return [
    ...violations(shape, completed),
    ...(RESERVED.includes(app_scope)
      ? [{ pointer: "/app_scope", message: `${app_scope} belongs to the Runtime` }]
      : []),
    ...allSchemaProblems(manifest),
    ...executionProblems(manifest.tools),
    ...repeated(manifest),
    ...capabilityProblems(manifest),
    ...writeProblems(manifest),
    ...addresses(manifest.tools, "/tools"),
  ];
}

function allSchemaProblems({ tools, ui_actions, mutations, events = [] }: Manifest): Problem[] {
  return [
    ...tools.flatMap((tool, index) => [
      ...schemaProblems(tool.input_schema, `/tools/${index}/input_schema`),
      ...schemaProblems(tool.output_schema, `/tools/${index}/output_schema`),
    ]),
    ...ui_actions.flatMap(({ schema }, index) => schemaProblems(schema, `/ui_actions/${index}/schema`)),
    ...mutations.flatMap(({ params_schema }, index) =>
      schemaProblems(params_schema, `/mutations/${index}/params_schema`),
    ),
    ...events.flatMap(({ schema }, index) => schemaProblems(schema, `/events/${index}/schema`)),
  ];
}

function repeated(manifest: Manifest): Problem[] {
  const keys = manifest.tools.map(({ method, contract_version }) => `${method}@${contract_version}`);
  const lists: Readonly<Record<string, readonly string[]>> = {
    entrypoints: (manifest["entrypoints"] as readonly { id: string }[]).map(({ id }) => id),
    ui_actions: manifest.ui_actions.map(({ name }) => name),
    mutations: manifest.mutations.map(({ name }) => name),
    events: (manifest.events ?? []).map(({ name }) => name),
    capabilities: manifest.capabilities.map(({ name }) => name),
    tools: keys,
  };
  const twice = Object.entries(lists).flatMap(([field, names]) =>
    names.flatMap((name, index) =>
      names.indexOf(name) < index ? [{ pointer: `/${field}/${index}`, message: `'${name}' is declared twice` }] : [],
    ),
  );
  const methodOf = new Map<string, string>();
  const alike = manifest.tools.flatMap(({ method }, index) => {
    const shown = method.replaceAll(".", "_");
    const other = methodOf.get(shown) ?? method;
    methodOf.set(shown, other);
    const message = `'${other}' and '${method}' would be shown to models under one name`;
    return other === method ? [] : [{ pointer: `/tools/${index}/method`, message }];
  });
  return [...twice, ...alike];
}

function capabilityProblems({ capabilities, tools }: Manifest): Problem[] {
  const declared = new Set(capabilities.map(({ name }) => name));
  return tools.flatMap((tool, index) =>
    tool.capabilities
      .filter((name) => !declared.has(name))
      .map((name) => ({
        pointer: `/tools/${index}/capabilities`,
        message: `${tool.method} uses '${name}', which the app does not declare`,
      })),
  );
}

function writeProblems({ tools, ui_actions, mutations }: Manifest): Problem[] {
  const both = tools.some(({ writes }) => writes) && ui_actions.some(({ writes }) => writes);
  if (!both || mutations.length > 0) return [];
  return [{ pointer: "/mutations", message: "agents and the person both write session data: that needs mutations" }];
}

/** No address reaches an agent through a tool: not in its words and not in its schemas. */
function addresses(value: unknown, pointer: string): Problem[] {
  if (typeof value === "string") {
    const told = value !== DIALECT && /[a-z][a-z0-9+.-]*:\/\//i.test(value);
    return told ? [{ pointer, message: "the tools of a manifest hold no address" }] : [];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, field]) => [
    ...addresses(name, below(pointer, name)),
    ...addresses(field, below(pointer, name)),
  ]);
}
