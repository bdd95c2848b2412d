// One open conversation, outside React: what the Runtime tells of it, made into rows and messages that components
// read. Events change it at once; components hear of it once per animation frame.
//
// Every opening is its own subscription. What comes for one that was closed changes nothing, and another conversation
// is another transcript: nothing late can get from one into the other.

import { LoopError, applyPatch, type JsonObject, type Patch } from "@lineloop/ui-model";
import type { ChatCore, Waiting } from "../../runtime/chat-core.ts";
import { Store } from "../../runtime/store.ts";
import { OncePerFrame, type NextFrame } from "./frames.ts";
import { Keyed } from "./keyed.ts";
import { callsByCause, pagesOf, reusePages, type Page } from "./rows.ts";
import { at, isShown, isStreaming, operatorOf, speakerOf } from "./wire.ts";
import type { Call, HeldSaying, Message, ProcessRow, Snapshot } from "./wire.ts";

export const PAGE_SIZE = 50;
const EMPTY_PAGES_AT_MOST = 20;

/** One thing that the person said and that is not a message yet. */
export interface SayingView {
  readonly key: string;
  readonly text: string;
  readonly target: Waiting["target"];
  readonly reply_to_id: string | null;
  readonly created_at: string;
  /** `waiting`: kept by the page; `pending`: kept by the Runtime; `sent`: on its way; `refused`: by `by`. */
  readonly state: "waiting" | "pending" | "sent" | "refused";
  readonly by: "page" | "runtime";
  readonly code: string | null;
}

export interface TranscriptView {
  readonly phase: "loading" | "ready";
  readonly pages: readonly Page[];
  readonly older: "none" | "more" | "loading" | "failed";
  /** Run messages that stream now, oldest first. */
  readonly running: readonly string[];
  /** The highest ordinal of the root that was seen. */
  readonly lastOrdinal: number;
  /** The newest message of the person. */
  readonly lastInput: string | null;
}

/** `asked`: the Runtime knows; the Run is stopped only when its message says so. */
export type StopWish = { readonly state: "asked" } | { readonly state: "failed"; readonly code: string };

/** What the one status region says. */
export interface Announcement {
  readonly kind: "started" | "finished" | "failed" | "stopped";
  readonly who: string;
}

interface ListedPage {
  readonly messages: readonly Message[];
  readonly more: boolean;
  readonly calls?: readonly Call[];
}

const LOADING: TranscriptView = {
  phase: "loading",
  pages: [],
  older: "none",
  running: [],
  lastOrdinal: 0,
  lastInput: null,
};

export class Transcript {
  readonly conversationId: string;
  readonly view = new Store<TranscriptView>(LOADING);
  readonly messages = new Keyed<Message>();
  readonly sayings = new Keyed<SayingView>();
  readonly calls = new Keyed<Call>();
  /** Question id → the answer that is on its way to the server, or was refused by it. */
  readonly answers = new Keyed<HeldSaying>();
  /** Message id → ids of the calls it caused. */
  readonly causes = new Keyed<readonly string[]>();
  /** Run message → how the person's wish to stop it fares; undefined when there is none. */
  readonly stops = new Keyed<StopWish>();
  /** Message id → when something of it last came, by performance.now(). */
  readonly lastHeard = new Map<string, number>();
  /** Grows with every message of a process conversation; the process pane reads `processMessages` then. */
  readonly processChange = new Store(0);
  readonly announcement = new Store<Announcement | null>(null);

  readonly #core: ChatCore;
  readonly #publish: OncePerFrame;
  readonly #nextFrame: NextFrame;
  #opening: object | null = null;
  #known = new Map<string, Message>();
  #root: Message[] = [];
  #calls = new Map<string, Call>();
  #held = new Map<string, HeldSaying>();
  readonly #paged = new Map<string, SayingView>();
  #processes = new Map<string, ProcessRow>();
  readonly #live = new Set<string>();
  readonly #asked = new Set<string>();
  readonly #dirty = new Set<string>();
  #rowsChanged = false;
  #processChanged = false;
  #more = false;
  #older: "idle" | "loading" | "failed" = "idle";
  #ready = false;

  constructor(core: ChatCore, conversationId: string, nextFrame: NextFrame) {
    this.#core = core;
    this.conversationId = conversationId;
    this.#nextFrame = nextFrame;
    this.#publish = new OncePerFrame(() => this.#flush(), nextFrame);
  }

  /** Begins to follow the conversation; the answer ends it. May be opened again. */
  readonly open = (): (() => void) => {
    const opening = {};
    this.#opening = opening;
    const payload = { conversation_id: this.conversationId };
    const unfollow = this.#core.follow("messages", payload, (type, event) => {
      if (this.#opening === opening) this.#take(type, event);
    });
    const unwatch = this.#core.outbox.subscribe(() => this.#change());
    return () => {
      unwatch();
      unfollow();
      if (this.#opening === opening) this.#opening = null;
    };
  };

  /** Fetches the page before the oldest known message. */
  async loadOlder(): Promise<void> {
    const opening = this.#opening;
    if (opening === null || !this.#more || this.#older === "loading") return;
    this.#older = "loading";
    this.#change();
    try {
      for (let fetched = 0; fetched < EMPTY_PAGES_AT_MOST && this.#more; fetched += 1) {
        const before = this.#root[0]?.ordinal;
        const page = await this.#list(this.conversationId, before);
        if (this.#opening !== opening) return;
        for (const message of page.messages) this.#takeMessage(message);
        for (const call of page.calls ?? []) this.#takeCall(call);
        this.#more = page.more && page.messages.length > 0;
        if (page.messages.some(isShown)) break;
      }
      this.#older = "idle";
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      if (this.#opening !== opening) return;
      this.#older = "failed";
    }
    this.#change();
  }

  /** Fetches older pages until the message is there. Answers whether it is. */
  async reach(messageId: string): Promise<boolean> {
    if (this.#known.has(messageId)) return true;
    const opening = this.#opening;
    const answer = await this.#core.request("messages.get", { message_id: messageId }).catch(() => null);
    const wanted = answer?.["message"] as unknown as Message | undefined;
    if (wanted?.conversation_id !== this.conversationId) return false;
    const isBefore = () => this.#more && (this.#root[0]?.ordinal ?? 0) > wanted.ordinal;
    do {
      // Another fetch may be on its way.
      if (this.#older === "loading") await new Promise<void>((resolve) => this.#nextFrame(resolve));
      else await this.loadOlder();
    } while (this.#opening === opening && isBefore() && this.#older !== "failed");
    return this.#known.has(messageId);
  }

  /** The first message of others beyond an ordinal; null while those before it may still be missing. */
  firstNew(after: number): string | null {
    if (this.#more && (this.#root[0]?.ordinal ?? 0) > after + 1) return null;
    const isNew = (one: Message) => one.ordinal > after && isShown(one) && one.actor.kind !== "user";
    return this.#root.find(isNew)?.id ?? null;
  }

  /** The process conversation of an operator, once one is known. */
  processOf(operator: string): ProcessRow | null {
    return [...this.#processes.values()].find((row) => operatorOf(row.actor) === operator) ?? null;
  }

  /** The work of an operator that is known here, in order. */
  processMessages(operator: string): readonly Message[] {
    return [...this.#known.values()]
      .filter((message) => message.conversation_id !== this.conversationId && isShown(message))
      .filter((message) => operatorOf(this.#processes.get(message.conversation_id)?.actor) === operator)
      .sort((a, b) => at(a.created_at) - at(b.created_at));
  }

  callsOf(messageId: string): readonly Call[] {
    return [...this.#calls.values()].filter((call) => call.run_message_id === messageId);
  }

  /** The person's next message after `ordinal` to the same operator; where the work on the one before ends. */
  nextInput(after: Message): Message | null {
    const target = operatorOf(after.target);
    return (
      this.#root.find((one) => one.ordinal > after.ordinal && one.purpose === "input" && operatorOf(one.target) === target) ??
      null
    );
  }

  /** Fetches the newest work of an operator; what comes is read through `processMessages`. */
  async loadProcess(operator: string): Promise<void> {
    const opening = this.#opening;
    const row = this.processOf(operator);
    if (opening === null || row === null) return;
    const page = await this.#list(row.conversation_id, undefined);
    if (this.#opening !== opening) return;
    for (const message of page.messages) this.#takeMessage(message);
    for (const call of page.calls ?? []) this.#takeCall(call);
    this.#change();
  }

  /** Asks to stop a Run. Whether it stopped is told by its message alone. */
  async stop(messageId: string): Promise<void> {
    if (this.stops.get(messageId)?.state === "asked") return;
    this.stops.set(messageId, { state: "asked" });
    try {
      await this.#core.dispatch("stop_run", { message_id: messageId });
    } catch (error) {
      const code = error instanceof LoopError ? error.code : "internal";
      if (this.stops.get(messageId) !== undefined) this.stops.set(messageId, { state: "failed", code });
    }
  }

  async #list(conversationId: string, before: number | undefined): Promise<ListedPage> {
    const range = before === undefined ? {} : { before };
    const payload = { conversation_id: conversationId, limit: PAGE_SIZE, ...range };
    return (await this.#core.request("messages.list", payload)) as unknown as ListedPage;
  }

  #take(type: string, event: JsonObject): void {
    switch (type) {
      case "messages.snapshot":
        this.#takeSnapshot(event as unknown as Snapshot);
        break;
      case "messages.message":
        this.#takeMessage(event["message"] as unknown as Message);
        break;
      case "messages.patch":
        this.#takePatch(event["message_id"] as string, event["patch"] as Patch);
        break;
      case "messages.call":
        this.#takeCall(event["call"] as unknown as Call);
        break;
      case "messages.saying":
        this.#takeSaying(event["saying"] as unknown as HeldSaying);
        break;
      default:
        return;
    }
    this.#publish.ask();
  }

  #takeSnapshot(snapshot: Snapshot): void {
    const first = snapshot.messages.find((message) => message.conversation_id === this.conversationId);
    const overlaps = first === undefined || (this.#root.at(-1)?.ordinal ?? 0) >= first.ordinal;
    if (!overlaps) this.#forgetRoot();
    if (!this.#ready || !overlaps) this.#more = snapshot.more;
    const told = new Set(snapshot.messages.map((message) => message.id));
    const lost = [...this.#known.values()].filter((message) => isStreaming(message) && !told.has(message.id));
    for (const row of snapshot.processes ?? []) this.#processes.set(row.conversation_id, row);
    for (const message of snapshot.messages) this.#takeMessage(message);
    for (const call of snapshot.calls) this.#takeCall(call);
    this.#held = new Map(snapshot.sayings.map((saying) => [saying.key, saying]));
    for (const saying of this.#paged.values()) if (saying.by === "runtime") this.#paged.delete(saying.key);
    this.#asked.clear();
    for (const message of lost) this.#askFor(message.id);
    this.#ready = true;
    this.#rowsChanged = true;
  }

  #forgetRoot(): void {
    for (const message of this.#root) {
      this.#known.delete(message.id);
      this.#dirty.add(message.id);
    }
    this.#root = [];
  }

  #takeMessage(message: Message): void {
    const known = this.#known.get(message.id);
    const older =
      known !== undefined &&
      (message.revision < known.revision || (!isStreaming(known) && isStreaming(message)));
    if (older) return;
    this.#asked.delete(message.id);
    this.#known.set(message.id, message);
    this.#noteStream(known, message);
    if (message.conversation_id === this.conversationId) this.#putInRoot(known, message);
    else this.#noteProcess(message);
    this.#touch(message);
    this.#rowsChanged = true;
  }

  #putInRoot(known: Message | undefined, message: Message): void {
    const root = this.#root;
    if (known !== undefined && known.ordinal === message.ordinal) {
      const place = root.lastIndexOf(known);
      if (place >= 0) root[place] = message;
      return;
    }
    let place = root.length;
    while (place > 0 && (root[place - 1]?.ordinal ?? 0) > message.ordinal) place -= 1;
    root.splice(place, 0, message);
  }

  #noteProcess(message: Message): void {
    if (!this.#processes.has(message.conversation_id)) {
      const row = { conversation_id: message.conversation_id, actor: speakerOf(message) };
      this.#processes.set(message.conversation_id, row);
    }
  }

  /** Remembers Runs at work, and says aloud where an answer begins and ends; never what it says. */
  #noteStream(known: Message | undefined, message: Message): void {
    if (isStreaming(message)) {
      if (message.purpose === "run") this.#live.add(message.id);
      if (known === undefined && this.#ready && message.actor.kind !== "user") this.#announce("started", message);
      return;
    }
    this.stops.set(message.id, undefined);
    if (known === undefined || !isStreaming(known)) return;
    const kind = message.status === "completed" ? "finished" : message.status === "failed" ? "failed" : "stopped";
    this.#announce(kind, message);
  }

  #announce(kind: Announcement["kind"], message: Message): void {
    const speaker = speakerOf(message);
    this.announcement.set({ kind, who: operatorOf(speaker) ?? speaker.key });
  }

  #takePatch(messageId: string, patch: Patch): void {
    const known = this.#known.get(messageId);
    if (known === undefined || patch.seq > known.revision + 1) return this.#askFor(messageId);
    if (patch.seq <= known.revision) return;
    try {
      const message = { ...known, content: applyPatch(known.content, patch), revision: patch.seq };
      this.#known.set(messageId, message);
      if (message.conversation_id === this.conversationId) this.#putInRoot(known, message);
      if (known.content.blocks.length === 0) this.#rowsChanged = true;
      this.#touch(message);
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      this.#askFor(messageId);
    }
  }

  #touch(message: Message): void {
    this.#dirty.add(message.id);
    this.lastHeard.set(message.id, performance.now());
    if (message.conversation_id !== this.conversationId) this.#processChanged = true;
  }

  /** Asks for the whole message: once per gap, and again only after an answer. */
  #askFor(messageId: string): void {
    const opening = this.#opening;
    if (this.#asked.has(messageId)) return;
    this.#asked.add(messageId);
    this.#core.request("messages.get", { message_id: messageId }).then(
      (answer) => {
        if (this.#opening !== opening) return;
        this.#takeMessage(answer["message"] as unknown as Message);
        this.#publish.ask();
      },
      () => this.#asked.delete(messageId),
    );
  }

  #takeCall(call: Call): void {
    this.#calls.set(call.call_id, call);
    this.#rowsChanged = true;
    this.#processChanged = true;
  }

  #takeSaying(saying: HeldSaying): void {
    if (saying.state === "forgotten") this.forget(saying.key);
    else this.#held.set(saying.key, saying);
    this.#rowsChanged = true;
  }

  /** The person takes a refused saying away. */
  forget(key: string): void {
    this.#held.delete(key);
    this.#paged.delete(key);
    this.#change();
  }

  #change(): void {
    this.#rowsChanged = true;
    this.#publish.ask();
  }

  #flush(): void {
    for (const id of this.#dirty) this.messages.set(id, this.#known.get(id));
    this.#dirty.clear();
    if (this.#rowsChanged) this.#publishRows();
    this.#rowsChanged = false;
    if (this.#processChanged) this.processChange.update((count) => count + 1);
    this.#processChanged = false;
  }

  #publishRows(): void {
    const sayings = this.#sayings();
    for (const key of this.sayings.keys()) if (!sayings.has(key)) this.sayings.set(key, undefined);
    for (const saying of sayings.values()) this.sayings.set(saying.key, saying);
    for (const call of this.#calls.values()) this.calls.set(call.call_id, call);
    this.#publishAnswers();
    this.#publishCauses();
    const runs = [...this.#live].flatMap((id) => this.#known.get(id) ?? []);
    const elsewhere = runs.filter((run) => run.conversation_id !== this.conversationId);
    const known = { rootId: this.conversationId, root: this.#root, runs: elsewhere, sayings: [...sayings.values()] };
    const before = this.view.get();
    this.view.set({
      phase: this.#ready ? "ready" : "loading",
      pages: reusePages(before.pages, pagesOf(known)),
      older: !this.#more ? "none" : this.#older === "idle" ? "more" : this.#older,
      running: runs.filter(isStreaming).map((run) => run.id),
      lastOrdinal: this.#root.at(-1)?.ordinal ?? 0,
      lastInput: this.#root.findLast((message) => message.purpose === "input")?.id ?? null,
    });
  }

  #publishAnswers(): void {
    const answers = [...this.#held.values()].filter((saying) => saying.kind === "answer");
    const known = new Map(answers.map((saying) => [saying.question_id ?? "", saying]));
    for (const id of this.answers.keys()) if (!known.has(id)) this.answers.set(id, undefined);
    for (const [id, saying] of known) this.answers.set(id, saying);
  }

  #publishCauses(): void {
    if (this.#calls.size === 0) return;
    const causes = callsByCause(this.#calls.values(), this.#root, (id) => this.#known.get(id));
    for (const id of this.causes.keys()) if (!causes.has(id)) this.causes.set(id, undefined);
    for (const [id, calls] of causes) {
      const before = this.causes.get(id);
      const same = before?.length === calls.length && before.every((call, index) => call === calls[index]);
      if (!same) this.causes.set(id, calls);
    }
  }

  /** What the person said and is no message yet: kept by the page, on its way into the Runtime, or kept by it. */
  #sayings(): Map<string, SayingView> {
    this.#watchOutbox();
    const sayings = new Map<string, SayingView>();
    for (const { key, kind, state, text, target, reply_to_id, created_at, code } of this.#held.values()) {
      if (kind === "answer" || state === "forgotten") continue;
      sayings.set(key, { key, state, text, target, reply_to_id, created_at, by: "runtime", code: code ?? null });
    }
    for (const saying of this.#paged.values()) if (!sayings.has(saying.key)) sayings.set(saying.key, saying);
    // What was said is among the newest; while nothing is on its way the conversation is not gone through.
    for (let place = this.#root.length; sayings.size > 0 && place > 0; place -= 1) {
      const message = this.#root[place - 1];
      if (message?.actor.kind !== "user" || !sayings.delete(message.key)) continue;
      this.#held.delete(message.key);
      this.#paged.delete(message.key);
    }
    return sayings;
  }

  /** What has left the page's outbox was taken by the Runtime, which is about to say so. */
  #watchOutbox(): void {
    const kept = new Set<string>();
    for (const { conversation_id, ...saying } of this.#core.outbox.get()) {
      if (conversation_id !== this.conversationId) continue;
      kept.add(saying.key);
      this.#paged.set(saying.key, { ...saying, by: "page" });
    }
    for (const saying of this.#paged.values()) {
      if (kept.has(saying.key)) continue;
      if (this.#held.has(saying.key)) this.#paged.delete(saying.key);
      else if (saying.state !== "pending") this.#paged.set(saying.key, { ...saying, state: "pending", by: "runtime" });
    }
  }
}
