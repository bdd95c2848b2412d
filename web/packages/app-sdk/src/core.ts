// What a core app gets from the Runtime: typed calls over one session. What each call means is the Runtime's affair.

import type { Port } from "./bridge/port.ts";
import { Session, type AppContext, type SessionOptions, type Unsubscribe } from "./bridge/session.ts";
import type {
  ActorName,
  AppSummary,
  AuditStory,
  Call,
  ChatAction,
  ChatState,
  Message,
  Question,
  RegistryOperation,
  Saying,
  SettingsState,
} from "./core-types.ts";
import type { JsonObject } from "./json.ts";
import { stateOf, type StateFeed } from "./surface.ts";
import { VERSION } from "./version.ts";

export type MessagesEvent =
  | {
      /** The whole of it: what was known before counts no more. */
      readonly type: "snapshot";
      readonly messages: readonly Message[];
      readonly more: boolean;
      readonly calls: readonly Call[];
      readonly sayings: readonly Saying[];
      /** The process conversations of this one: where agents work. */
      readonly processes: readonly { readonly conversation_id: string; readonly actor: ActorName }[];
    }
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "patch"; readonly message_id: string; readonly patch: JsonObject }
  | { readonly type: "call"; readonly call: Call }
  | { readonly type: "saying"; readonly saying: Saying };

export interface Chat {
  readonly state: StateFeed<ChatState>;
  readonly messages: {
    list(request: { readonly conversation_id: string; readonly before?: number; readonly limit?: number }): Promise<{
      readonly messages: readonly Message[];
      readonly more: boolean;
      readonly calls: readonly Call[];
    }>;
    /** The message as it is now: for a patch that does not follow. */
    get(messageId: string): Promise<Message>;
    /** Starts with a snapshot, also after every new connection. */
    subscribe(conversationId: string, listener: (event: MessagesEvent) => void): Unsubscribe;
  };
  readonly questions: { get(questionId: string): Promise<Question> };
  readonly actions: {
    /** Idempotent by `id`: the same action under the same id has the same receipt. */
    dispatch<Name extends keyof ChatAction>(
      id: string,
      action: Name,
      params: ChatAction[Name]["params"],
    ): Promise<ChatAction[Name]["receipt"]>;
  };
}

export interface Registry {
  list(): Promise<readonly AppSummary[]>;
  enable(appScope: string): Promise<RegistryOperation>;
  disable(appScope: string): Promise<RegistryOperation>;
  remove(appScope: string): Promise<RegistryOperation>;
  operation(operationId: string): Promise<RegistryOperation>;
}

export interface Settings {
  readonly state: StateFeed<SettingsState>;
  audit(filter?: {
    readonly call_id?: string;
    readonly app_scope?: string;
    readonly conversation_id?: string;
    readonly limit?: number;
  }): Promise<{ readonly stories: readonly AuditStory[]; readonly more: boolean }>;
}

export interface Core {
  readonly app: AppContext;
  readonly chat: Chat;
  readonly registry: Registry;
  readonly settings: Settings;
  close(): void;
}

/**
 * The session of a core app over `port`. Which of its calls are answered depends on the app whose session it is; the
 * others are refused. It survives a new connection behind the port.
 */
export async function connectCore(port: Port, options: SessionOptions = {}): Promise<Core> {
  const session = new Session(port, { ...options, core: true });
  const state = stateOf<never>(session);
  try {
    await session.start({ sdk: VERSION });
  } catch (error) {
    session.close();
    throw error;
  }
  return {
    get app() {
      return session.context;
    },
    chat: chatOf(session, state),
    registry: registryOf(session),
    settings: {
      state,
      audit: async (filter = {}) =>
        (await session.request("audit.list", { ...filter })) as Awaited<ReturnType<Settings["audit"]>>,
    },
    close: () => session.close(),
  };
}

function chatOf(session: Session, state: StateFeed<ChatState>): Chat {
  return {
    state,
    messages: {
      list: async (request) =>
        (await session.request("messages.list", { ...request })) as Awaited<ReturnType<Chat["messages"]["list"]>>,
      get: async (messageId) => field(await session.request("messages.get", { message_id: messageId }), "message"),
      subscribe: (conversationId, listener) =>
        session.subscribe("messages", { conversation_id: conversationId }, (type, { subscription: _, ...payload }) =>
          listener({ ...payload, type: type.slice("messages.".length) } as MessagesEvent),
        ),
    },
    questions: {
      get: async (questionId) => (await session.request("questions.get", { question_id: questionId })) as Question,
    },
    actions: {
      dispatch: async (id, action, params) =>
        (await session.request("action.dispatch", { id, action, params })) as never,
    },
  };
}

function registryOf(session: Session): Registry {
  const on = async (verb: string, appScope: string): Promise<RegistryOperation> =>
    (await session.request(`registry.${verb}`, { app_scope: appScope })) as RegistryOperation;
  return {
    list: async () => field(await session.request("registry.list"), "apps"),
    enable: (appScope) => on("enable", appScope),
    disable: (appScope) => on("disable", appScope),
    remove: (appScope) => on("remove", appScope),
    operation: async (operationId) =>
      (await session.request("registry.operation", { operation_id: operationId })) as RegistryOperation,
  };
}

function field<Value>(answer: unknown, name: string): Value {
  return (answer as Record<string, Value>)[name] as Value;
}
