// What core apps are told, as it stands on the wire (spec/protocol.md §10). Unknown further fields are passed over.

import type { JsonObject } from "./json.ts";

export interface ActorName {
  readonly kind: string;
  readonly key: string;
}

export interface CodedError {
  readonly code: string;
  readonly message: string;
}

export interface Connection {
  readonly state: "connecting" | "online" | "catching_up" | "offline";
  readonly waiting: number;
  readonly since: string;
}

export interface Model {
  readonly target: string;
  readonly label: string;
  readonly chosen: boolean;
}

export interface ConversationSummary {
  readonly id: string;
  readonly title: string;
  readonly name: string | null;
  readonly created_at: string;
  readonly last_at: string;
  readonly last_ordinal: number;
  readonly unread: number;
}

export interface ChatState {
  readonly connection: Connection;
  readonly person: ActorName;
  /** Newest activity first. */
  readonly conversations: readonly ConversationSummary[];
  readonly recipients: readonly (ActorName & {
    readonly display_name: string;
    readonly description: string;
    readonly online: boolean;
  })[];
  readonly model: Model | null;
}

/** A message of the wire (spec/protocol.md §2.1); `run_id` only when a Run writes it. */
export interface Message {
  readonly id: string;
  readonly conversation_id: string;
  readonly revision: number;
  readonly ordinal: number;
  readonly status: string;
  readonly content: JsonObject;
  readonly run_id?: string;
  /** Its content was shortened because it is too large for a frame. */
  readonly cut?: true;
  readonly [field: string]: unknown;
}

export interface Call {
  readonly call_id: string;
  readonly conversation_id: string;
  readonly agent: ActorName;
  readonly run_message_id: string | null;
  readonly app_scope: string;
  readonly app_title: string;
  readonly method: string;
  readonly title: string;
  readonly params: JsonObject;
  readonly state: string;
  readonly receipts: readonly {
    readonly stage: string;
    readonly sequence: number;
    readonly at: string;
    readonly reason?: string;
    readonly facts?: JsonObject;
  }[];
  readonly result: unknown;
  readonly error: CodedError | null;
  readonly accepted_at: string;
  readonly ended_at: string | null;
  readonly ends_at: string | null;
  readonly operation?: {
    readonly state: string;
    readonly started_at: string;
    readonly ends_at: string;
    readonly elapsed_ms: number;
  } | null;
}

/** What the person said and the server may not have yet. */
export interface Saying {
  readonly key: string;
  readonly conversation_id: string;
  readonly kind?: "speak" | "answer";
  readonly state: "pending" | "sent" | "refused" | "forgotten";
  readonly code?: string;
  readonly text: string;
  readonly target: ActorName | null;
  readonly reply_to_id: string | null;
  readonly created_at: string;
}

export type Question = JsonObject & { readonly id: string };

interface Action<Params, Receipt = JsonObject> {
  readonly params: Params;
  readonly receipt: Receipt;
}

/** The actions of the chat: what each takes and what its receipt says. */
export interface ChatAction {
  readonly say: Action<
    {
      readonly conversation_id: string;
      readonly key: string;
      readonly text: string;
      readonly target?: ActorName;
      readonly reply_to_id?: string;
    },
    { readonly key: string; readonly state: Saying["state"] }
  >;
  /** `value` null dismisses the question. */
  readonly answer: Action<{ readonly conversation_id: string; readonly question_id: string; readonly value: unknown }>;
  readonly stop_run: Action<{ readonly message_id: string }, { readonly phase: string }>;
  readonly create_conversation: Action<{ readonly name?: string }, JsonObject & { readonly id: string }>;
  readonly mark_read: Action<{ readonly conversation_id: string; readonly ordinal: number }>;
  readonly forget_saying: Action<{ readonly conversation_id?: string; readonly key: string }>;
}

export interface AppSummary {
  readonly app_scope: string;
  readonly title: string;
  readonly version: string;
  readonly kind: "core" | "installed";
  readonly enabled: boolean;
  /** The code of why it cannot be used. */
  readonly unavailable: string | null;
  readonly icon: string | null;
  readonly has_surface: boolean;
  readonly tools: readonly string[];
  readonly permissions: readonly { readonly name: string; readonly purpose: string }[];
  readonly publisher: string | null;
  /** Where its code runs: `shell`, `process`, `frame`. */
  readonly isolation: readonly string[];
}

export type RegistryOperation = JsonObject & { readonly operation_id: string; readonly state: string };

export interface SettingsState {
  readonly device: JsonObject;
  readonly person: ActorName | null;
  readonly model: Model | null;
  readonly connection: Connection;
  readonly versions: JsonObject;
}

/** What the audit knows of one call: its entries in their order. */
export type AuditStory = JsonObject;
