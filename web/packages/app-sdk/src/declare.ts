// How an app says what it is and what agents may ask of it. The declaration in the app's source is the only one: its
// build writes the manifest from it. Nothing here touches a page or the network; it runs in the logic container too.

import type { SessionData } from "./bridge/session-data.ts";
import type { Json, JsonObject } from "./json.ts";
import type { InputOf, OutputOf, Schema } from "./schema-types.ts";

export type CallModel = "query" | "command" | "interactive" | "operation";
export type ActivationRequirement = "app_ready" | "foreground_required" | "activation_not_required";

/** What a handler gets beside its parameters. */
export interface ToolContext {
  readonly callId: string;
  readonly conversationId: string;
  readonly session: SessionData;
  readonly cancelled: boolean;
  /** The next id of this call, `<call id>/<n>`: the same again when the call is dispatched again. */
  id(): string;
  progress(value: Json): void;
  /** Keeps the call open until `logic().tools.complete` or `.fail`. */
  open(): void;
  /** Ends the call with the app's own words, which the agent reads. */
  fail(message: string): never;
  onCancel(listener: () => void): void;
}

/** A handler that keeps its call open with `context.open()` returns nothing. */
export type ToolHandler<Input, Output> = (
  params: InputOf<Input>,
  context: ToolContext,
) => OutputOf<Output> | void | Promise<OutputOf<Output> | void>;

/** What the Runtime itself does for a tool with `delivery: "runtime"`. */
export interface Execution {
  readonly name: string;
  readonly durationFrom?: { readonly param: string; readonly unit: "ms" | "seconds" | "minutes" | "hours" };
  readonly onLeave?: "interrupt" | "continue";
  readonly outcomes: readonly string[];
}

export interface ToolFacts {
  readonly title: string;
  /** For the model that chooses among tools. */
  readonly description?: string;
  readonly callModel: CallModel;
  /** Default "1". */
  readonly contractVersion?: string;
  /** Default "miniapp_sdk": a handler of the app. */
  readonly delivery?: "miniapp_sdk" | "runtime";
  readonly execution?: Execution;
  /** Default "app_ready". */
  readonly activation?: ActivationRequirement;
  /** Default 30 000. */
  readonly timeoutMs?: number;
  /** Default "call_id": may be dispatched again after a crash. */
  readonly idempotency?: "call_id" | "none";
  /** Default "low"; above it the person is asked first. */
  readonly risk?: "low" | "medium" | "high";
  /** Names of capabilities that the app declares. */
  readonly capabilities?: readonly string[];
  /** Default true: a call opens the app. */
  readonly autoLaunch?: boolean;
  /** The tool changes session data. */
  readonly writes?: boolean;
}

/** Tools by method. The schemas stay known, so that handlers elsewhere can be typed by them: see `Handlers`. */
export type AgentTools<Inputs = unknown, Outputs = unknown> = Readonly<Record<string, AnyTool>> & {
  readonly [TOOLS]?: { readonly inputs: Inputs; readonly outputs: Outputs };
};

declare const TOOLS: unique symbol;

/** A tool whose schemas are not known to the types any more. */
export interface AnyTool extends ToolFacts {
  readonly input: Schema;
  readonly output: Schema;
  readonly handler?: (params: never, context: ToolContext) => unknown;
}

/** Handlers by method, for apps that keep them apart from their declarations. */
export type Handlers<Tools> =
  Tools extends AgentTools<infer Inputs, infer Outputs>
    ? { readonly [Method in keyof Inputs]?: ToolHandler<Inputs[Method], Outputs[Method & keyof Outputs]> }
    : never;

/** Declares tools: method → declaration. Parameters and result of each handler follow from its schemas. */
export function defineAgentTools<
  const Inputs extends Readonly<Record<string, Schema>>,
  const Outputs extends Readonly<Record<keyof Inputs, Schema>>,
>(tools: DeclaredIn<Inputs> & DeclaredOut<Inputs, Outputs>): AgentTools<Inputs, Outputs> {
  return tools as unknown as AgentTools<Inputs, Outputs>;
}

// Two views of the same declarations: each lets one half of the schemas be inferred.
type DeclaredIn<Inputs> = {
  readonly [Method in keyof Inputs]: ToolFacts & {
    readonly input: Inputs[Method];
    readonly output: unknown;
    readonly handler?: unknown;
  };
};
type DeclaredOut<Inputs, Outputs> = {
  readonly [Method in keyof Outputs]: ToolFacts & {
    readonly input: unknown;
    readonly output: Outputs[Method];
    readonly handler?: ToolHandler<Inputs[Method & keyof Inputs], Outputs[Method]>;
  };
};

export interface Named {
  readonly name: string;
}

export interface AppDeclaration<Tools extends AgentTools = AgentTools> {
  readonly appScope: string;
  readonly version: string;
  readonly title: string;
  readonly seq?: number;
  readonly publisherKeyId?: string;
  readonly features?: { readonly required?: readonly string[]; readonly optional?: readonly string[] };
  /** Default "per_conversation": later launches take up the conversation's sub-session. */
  readonly session?: "per_conversation" | "per_launch";
  readonly entrypoints: readonly {
    readonly id: string;
    readonly kind: "default" | "contextual";
    readonly defaultEligible?: boolean;
  }[];
  readonly agentSubscriptions?: readonly { readonly type: string; readonly scope: "conversation" | "instance" }[];
  readonly uiActions?: readonly (Named & {
    readonly schema: Schema;
    readonly needsGesture?: boolean;
    readonly writes?: boolean;
  })[];
  readonly mutations?: readonly (Named & { readonly params: Schema })[];
  readonly events?: readonly (Named & { readonly schema: Schema })[];
  readonly capabilities?: readonly (Named & { readonly purpose: string })[];
  readonly tools?: Tools | readonly AgentTools[];
  /** Handlers that do not stand in their declarations. */
  readonly handlers?: Handlers<Tools>;
  /** `entry` is the source file; the build makes `surface/main.js` of it. */
  readonly surface?: { readonly entry: string };
  /** A raster image inside the app's folder. */
  readonly icon?: string;
}

/** Declares the app. The default export of its `src/app.ts`. */
export function defineApp<const Tools extends AgentTools>(declaration: AppDeclaration<Tools>): AppDeclaration<Tools> {
  return declaration;
}

/** What code in the logic container reaches beside its handlers' contexts. */
export interface Logic {
  readonly app: { readonly app_scope: string; readonly app_session_id: string; readonly conversation_id: string };
  readonly sessionData: SessionData;
  readonly tools: {
    /** Ends a call that its handler kept open. */
    complete(callId: string, result: JsonObject): void;
    fail(callId: string, message: string): void;
  };
}

/** Throws Error outside the logic container. */
export function logic(): Logic {
  const { lineloop } = globalThis as unknown as { lineloop?: Logic };
  if (lineloop === undefined) throw new Error("this runs outside the logic container");
  return lineloop;
}
