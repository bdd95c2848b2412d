// The shape of a manifest as this build writes it. What it may say is in spec/schema/app-manifest.json.

export interface ManifestTool {
  readonly method: string;
  readonly contract_version: string;
  readonly title: string;
  readonly description: string;
  readonly input_schema: Readonly<Record<string, unknown>>;
  readonly output_schema: Readonly<Record<string, unknown>>;
  readonly call_model: string;
  readonly delivery: string;
  readonly execution?: {
    readonly name: string;
    readonly duration_from?: { readonly param: string; readonly unit: string };
    readonly on_leave?: string;
    readonly outcomes: readonly string[];
  };
  readonly activation_requirement: string;
  readonly timeout_ms: number;
  readonly idempotency: string;
  readonly risk: string;
  readonly capabilities: readonly string[];
  readonly auto_launch: boolean;
  readonly writes?: boolean;
}

export interface Manifest {
  readonly format: "lineloop.app.v1";
  readonly app_scope: string;
  readonly version: string;
  readonly title: string;
  readonly ui_actions: readonly { readonly name: string; readonly schema: unknown; readonly writes?: boolean }[];
  readonly mutations: readonly { readonly name: string; readonly params_schema: unknown }[];
  readonly events?: readonly { readonly name: string; readonly schema: unknown }[];
  readonly capabilities: readonly { readonly name: string; readonly purpose: string }[];
  readonly tools: readonly ManifestTool[];
  readonly surface?: { readonly entry: string; readonly csp_mode: string };
  readonly logic?: string;
  readonly icon?: string;
  readonly [field: string]: unknown;
}

/** What describe mode finds out about a declaration; plain JSON. */
export interface Description {
  readonly manifest: Manifest;
  /** The source file of the surface. */
  readonly surfaceSource: string | null;
  readonly problems: readonly { readonly pointer: string; readonly message: string }[];
}
