// The desk of this page: what the Runtime projects (workspace, apps, consent, connection), which conversation the
// page shows, and what the person wants next.
//
// What is shown is the Runtime's: the page asks (`intent`) and draws what comes back. Only the choice of a
// conversation is its own at once, so that a click never waits.

import type { JsonObject } from "@lineloop/ui-model";
import { isPlace, newPlace, type ChatCore, type Connection, type ModelChoice, type Place } from "../runtime/chat-core.ts";
import type { RuntimeClient } from "../runtime/client.ts";
import { CoreSession } from "../runtime/core-session.ts";
import { Store } from "../runtime/store.ts";
import { PAGE_TIME, type Time } from "../runtime/time.ts";
import {
  foregroundInstance,
  NO_APPS,
  NO_WORKSPACE,
  readApps,
  readKeys,
  readModel,
  readServers,
  readSheets,
  readWorkspace,
  type Apps,
  type BrowserKey,
  type FoundServer,
  type Instance,
  type Sheet,
  type Workspace,
} from "./shapes.ts";

export type Intent = "show_chat" | "show_app" | "open_conversation" | "close_app";

const CONVERSATION = "lineloop.conversation";
const CALM: Connection = { state: "online", waiting: 0, since: null };

export class Desk {
  readonly workspace = new Store<Workspace>(NO_WORKSPACE);
  readonly apps = new Store<Apps>(NO_APPS);
  readonly sheets = new Store<readonly Sheet[]>([]);
  readonly connection = new Store<Connection>(CALM);
  readonly conversation: Store<string | null>;
  /** What was asked for and is not there yet: an app being opened. */
  readonly launching = new Store<string | null>(null);
  /** Who answers; null until it is known. */
  readonly model = new Store<ModelChoice | null>(null);
  readonly client: RuntimeClient;
  readonly chat: ChatCore;
  readonly #storage: Storage;
  readonly #time: Time;
  // Opened when the settings are looked at first, and kept.
  #settings: CoreSession | null = null;
  // A conversation that was chosen while the Runtime was away is told when it is back.
  #untold: { readonly kind: Intent; readonly conversation_id: string } | null = null;
  #foreground = "";
  /** Of the conversation that an app is to be opened in, until it is there. */
  #place: Place | null = null;
  #listed: ReadonlySet<string> | null = null;

  constructor(client: RuntimeClient, chat: ChatCore, storage: Storage, time: Time = PAGE_TIME) {
    this.client = client;
    this.chat = chat;
    this.#storage = storage;
    this.#time = time;
    this.conversation = new Store(this.#kept());
    client.on("workspace", (payload) => this.#project(readWorkspace(payload)));
    client.on("apps", (payload) => this.apps.set(readApps(payload)));
    client.on("consent", (payload) => this.sheets.set(readSheets(payload)));
    client.on("connection", (payload) => this.connection.set(readConnection(payload)));
    client.onOnline(() => this.#tellUntold());
    client.welcome.subscribe(() => this.#takeModel(client.welcome.get()?.["model"]));
    chat.state.subscribe(() => {
      this.#takeModel(chat.state.get()?.model);
      this.#choose();
    });
    this.#choose();
  }

  /** The instance that stands beside the chat; null when the chat is everything. */
  shown(): Instance | null {
    const instance = foregroundInstance(this.workspace.get());
    return instance?.conversation_id === this.conversation.get() ? instance : null;
  }

  openConversation(conversation_id: string): void {
    if (conversation_id === this.conversation.get()) return;
    this.#keep(conversation_id);
    this.#intend({ kind: "open_conversation", conversation_id });
  }

  showChat(): void {
    const conversation_id = this.conversation.get();
    if (conversation_id !== null) this.#intend({ kind: "show_chat", conversation_id });
  }

  /** The person goes to the app of a conversation. Rejects with LoopError. */
  async showApp(instance: Instance): Promise<void> {
    this.#keep(instance.conversation_id);
    await this.#ask("show_app", instance.conversation_id, instance.instance_id);
  }

  async closeApp(instance: Instance): Promise<void> {
    await this.#ask("close_app", instance.conversation_id, instance.instance_id);
  }

  /** Opens an app in the conversation of the page; makes one first when there is none. Rejects with LoopError. */
  async launch(app_scope: string, title: string): Promise<void> {
    this.launching.set(app_scope);
    try {
      let conversation_id = this.conversation.get();
      if (conversation_id === null) {
        // Tried again after an answer that was lost it is the same conversation.
        this.#place ??= newPlace();
        const made = await this.chat.dispatch("create_conversation", { key: this.#place, name: title });
        conversation_id = typeof made["id"] === "string" ? made["id"] : null;
        if (conversation_id === null) return;
        this.#place = null;
        this.#keep(conversation_id);
      }
      await this.client.request("apps.launch", { app_scope, conversation_id });
    } finally {
      this.launching.set(null);
    }
  }

  async answerConsent(call_ref: string, allowed: boolean): Promise<void> {
    await this.client.request("consent.answer", { call_ref, allowed });
    this.sheets.update((sheets) => sheets.filter((sheet) => sheet.call_ref !== call_ref));
  }

  async findModels(): Promise<readonly FoundServer[]> {
    return readServers(await this.client.request("models.find", {}));
  }

  async chooseModel(target: string, key: string | null): Promise<void> {
    const answer = await this.client.request("models.choose", key === null ? { target } : { target, key });
    this.#takeModel(answer["model"]);
  }

  /** The browsers that may open this device. Rejects with LoopError. */
  async keys(): Promise<readonly BrowserKey[]> {
    return readKeys(await this.client.request("keys.list", {}));
  }

  /** Sends a browser away for good. Rejects with LoopError. */
  async revokeKey(name: string): Promise<void> {
    await this.client.request("keys.revoke", { name });
  }

  /** What this installation is (the settings app's state, spec/protocol.md §10.4). Rejects with LoopError. */
  async facts(): Promise<JsonObject> {
    this.#settings ??= new CoreSession(this.client, "settings", this.#time);
    return this.#settings.request("state.get", {});
  }

  #takeModel(told: unknown): void {
    const model = readModel(told);
    if (model !== null) this.model.set(model);
  }

  #ask(kind: Intent, conversation_id: string, instance_id: string): Promise<JsonObject> {
    this.#untold = null;
    return this.client.request("intent", { kind, conversation_id, instance_id });
  }

  #intend(intent: { readonly kind: Intent; readonly conversation_id: string }): void {
    this.#untold = intent;
    this.#tellUntold();
  }

  #tellUntold(): void {
    const intent = this.#untold;
    if (intent === null || this.client.link.get() !== "online") return;
    this.client.request("intent", intent).then(
      () => this.#told(intent),
      (error: { code?: string }) => {
        if (error.code !== "connection_lost") this.#told(intent);
      },
    );
  }

  #told(intent: object): void {
    if (this.#untold === intent) this.#untold = null;
  }

  // A new foreground brings its conversation with it; one that stays says nothing about where the person went.
  #project(workspace: Workspace): void {
    const shown = workspace.foreground;
    const name = shown === null ? "" : JSON.stringify([shown.conversation_id, shown.instance_id]);
    const isNew = name !== this.#foreground && shown !== null && this.#untold === null;
    this.#foreground = name;
    this.workspace.set(workspace);
    if (isNew) this.#keep(shown.conversation_id);
  }

  // The page begins where it was; without that, and when its conversation is gone, with the newest one. One that
  // the Runtime has not listed yet was just made.
  #choose(): void {
    const state = this.chat.state.get();
    if (state === null) return;
    const now = this.conversation.get();
    const listed = new Set(state.conversations.map((row) => row.id));
    const isGone = now !== null && !listed.has(now) && (this.#listed === null || this.#listed.has(now));
    this.#listed = listed;
    // Where first words wait for their conversation the page stays: the chat goes on to it when it is made.
    const waits = this.chat.outbox.get().some((one) => isPlace(one.conversation_id));
    if (isGone || (now === null && !waits)) this.#keep(state.conversations[0]?.id ?? null);
  }

  #kept(): string | null {
    try {
      return this.#storage.getItem(CONVERSATION);
    } catch {
      return null;
    }
  }

  #keep(conversation_id: string | null): void {
    this.conversation.set(conversation_id);
    try {
      if (conversation_id !== null) this.#storage.setItem(CONVERSATION, conversation_id);
    } catch {
      // Forbidden: the next page begins with the newest conversation.
    }
  }
}

function readConnection(payload: JsonObject): Connection {
  const { state, waiting, since } = payload;
  const known = state === "connecting" || state === "catching_up" || state === "offline" ? state : "online";
  return {
    state: known,
    waiting: typeof waiting === "number" ? waiting : 0,
    since: typeof since === "string" ? since : null,
  };
}
