// Conversations that look like real ones, in both languages.

import type { Block, Content } from "@lineloop/ui-model";
import { emptyContent } from "@lineloop/ui-model";
import { ASSISTANT, FakeCore, PERSON, ROOT, block, call, chatState, held, message, said } from "../tests/chat/fake-core.ts";
import type { Message } from "../src/chat/model/wire.ts";
import { WORDS, type SceneWords } from "./scene-words.ts";

type Scene = (core: FakeCore, lang: "en" | "zh", messages: number) => () => void;
export type SceneName = "talk" | "cards" | "offline" | "begin" | "bench" | "long";

const PROCESS = "conv_process";
const HARNESS = { kind: "harness", key: "run-1" };
const now = Date.now();
const ago = (seconds: number): string => new Date(now - seconds * 1000).toISOString();
const when = (seconds: number): Pick<Message, "created_at" | "updated_at"> => ({ created_at: ago(seconds), updated_at: ago(seconds) });
const meta = (content: Content, values: Content["meta"]): Content => ({ ...content, meta: values });

function setState(core: FakeCore, words: SceneWords, offline: boolean): void {
  const rows = words.conversations.map((title, index) => ({
    id: index === 0 ? ROOT : `conv_${index}`,
    title,
    name: null,
    created_at: ago(index * 40_000 + 900),
    last_at: ago(index * index * 21_000 + 60),
    last_ordinal: 9,
    unread: index === 2 ? 3 : 0,
  }));
  const recipients = [
    { ...ASSISTANT, display_name: words.assistant, description: "", online: true },
    { kind: "operator", key: "research", display_name: words.research, description: "", online: true },
    { kind: "operator", key: "garden", display_name: words.garden, description: "", online: false },
  ];
  const connection = offline
    ? { state: "offline" as const, waiting: 2, since: ago(90) }
    : { state: "online" as const, waiting: 0, since: null };
  core.state.set(chatState({ conversations: rows, recipients, connection, model: { target: "demo", label: "Demo", chosen: false } }));
}

function run(id: string, input: string, blocks: readonly Block[], parts: Partial<Message>): Message {
  const content = meta({ ...emptyContent(), blocks }, { input_id: input });
  const base = { conversation_id: PROCESS, actor: HARNESS, on_behalf_of: ASSISTANT, purpose: "run", content };
  return { ...message(1, {}), ...base, id, key: id, ...parts };
}

const talk: Scene = (core, lang) => {
  const words = WORDS[lang];
  setState(core, words, false);
  return () => {
    const messages = [
      said(1, words.ask_report, when(90_000)),
      message(2, { blocks: [block("markdown", words.report)], reply_to_id: "msg_1", target: PERSON, ...when(89_990) }),
      said(3, words.ask_code, when(1900)),
      message(4, { blocks: [block("markdown", words.code)], reply_to_id: "msg_3", target: PERSON, ...when(1890) }),
      said(5, words.ask_tea, when(310)),
      message(6, { blocks: [block("text", words.tea)], reply_to_id: "msg_5", target: PERSON, ...when(300) }),
      said(7, words.ask_plan, when(20)),
    ];
    const tools: readonly Block[] = [
      block("markdown", words.thinking),
      { id: "tool-1", type: "tool", name: "notes__search", title: words.search, state: "result", arguments: { query: "Q3" }, result: { found: 4 } },
    ];
    const work = [
      run("run_5", "msg_5", [block("text", words.tea)], { created_at: ago(309), updated_at: ago(301) }),
      run("run_7", "msg_7", tools, { status: "streaming", revision: 4, created_at: ago(18), updated_at: ago(1) }),
    ];
    const calls = [
      call({
        call_id: "call_5",
        run_message_id: "run_5",
        params: { minutes: 25, label: words.label },
        title: words.pomodoro_title,
        app_title: words.pomodoro,
        state: "operating",
        accepted_at: ago(306),
        ends_at: new Date(now + 1_190_000).toISOString(),
        receipts: [
          { stage: "starting", sequence: 1, at: ago(306) },
          { stage: "activation_ready", sequence: 2, at: ago(304) },
          { stage: "started", sequence: 3, at: ago(304) },
        ],
      }),
      call({
        call_id: "call_7",
        run_message_id: "run_7",
        params: { text: words.label },
        title: words.note_title,
        app_title: words.notes,
        state: "awaiting_consent",
        accepted_at: ago(6),
        receipts: [{ stage: "accepted", sequence: 1, at: ago(6) }],
      }),
    ];
    core.snapshot({ messages: [...messages, ...work], calls, processes: [{ conversation_id: PROCESS, actor: ASSISTANT }] });
  };
};

const cards: Scene = (core, lang) => {
  const words = WORDS[lang];
  setState(core, words, false);
  return () => {
    const choices = words.choices.map((label, index) => ({ value: `v${index}`, label }));
    const asked = (id: string, more: Partial<Block>): Block => ({
      ...{ id, type: "ask", text: words.question, choices, allow_other: true, state: "pending", value: null },
      deadline_at: new Date(now + 3_600_000).toISOString(),
      ...more,
    });
    const confirm = words.confirm_choices.map((label, index) => ({ value: index === 0 ? "accepted" : "declined", label }));
    const question = { purpose: "question", target: PERSON };
    const reply: Block = { id: "reply", type: "human_reply", question_id: "msg_2", kind: "ask", question: words.question, choices, dismissed: false, value: "v1", label: words.choices[1] ?? "" };
    const messages = [
      said(1, words.ask_report, when(600)),
      message(2, { ...question, blocks: [asked("question", { state: "success", value: "v1" })], ...when(590) }),
      message(3, { purpose: "answer", actor: PERSON, blocks: [reply], ...when(560) }),
      message(4, { ...question, blocks: [asked("question", { type: "confirm", text: words.confirm, choices: confirm, state: "success", value: "declined" })], ...when(500) }),
      message(5, { blocks: [{ id: "x", type: "hologram", depth: 3 }], ...when(480) }),
      message(6, { status: "failed", content: meta({ ...emptyContent(), blocks: [block("text", words.tea)] }, { error: { code: "model_unavailable", message: words.failed } }), ...when(460) }),
      message(7, { ...question, blocks: [asked("question", {})], ...when(60) }),
      message(8, { ...question, blocks: [asked("question", { type: "confirm", text: words.confirm, choices: confirm })], ...when(30) }),
    ];
    core.snapshot({ messages });
  };
};

const offline: Scene = (core, lang) => {
  const words = WORDS[lang];
  setState(core, words, true);
  return () => {
    core.snapshot({
      messages: [said(1, words.ask_tea, when(600)), message(2, { blocks: [block("text", words.tea)], ...when(590) })],
      sayings: [
        held("a", { text: words.ask_plan, created_at: ago(40) }),
        held("b", { text: words.ask_code, state: "refused", code: "not_participant", created_at: ago(20) }),
      ],
    });
  };
};

const begin: Scene = (core, lang) => {
  setState(core, WORDS[lang], false);
  return () => undefined;
};

const STREAMED = "streamed";

const bench: Scene = (core, lang, count) => {
  const words = WORDS[lang];
  setState(core, words, false);
  const bodies = [words.report, words.code, words.tea, words.thinking];
  const talked = Array.from({ length: count }, (_, index) => {
    const at = when((count - index) * 40 + 60);
    if (index % 2 === 0) return said(index + 1, words.ask_report, at);
    return message(index + 1, { blocks: [block("markdown", bodies[index % bodies.length] ?? "")], ...at });
  });
  return () => {
    core.snapshot({ messages: talked });
    const content = { ...emptyContent(), blocks: [block("markdown", "")] };
    core.message({ ...message(count + 1, { status: "streaming", content }), ...when(0), id: STREAMED });
  };
};

/** Fetched page by page, as from a Runtime. */
const long: Scene = (core, lang, count) => {
  const words = WORDS[lang];
  setState(core, words, false);
  const bodies = [words.report, words.tea, words.code, words.thinking];
  const one = (ordinal: number): Message => {
    const at = when((count - ordinal) * 40 + 60);
    if (ordinal % 2 === 1) return said(ordinal, `${ordinal} ${words.ask_report}`, at);
    return message(ordinal, { blocks: [block("markdown", bodies[(ordinal / 2) % 4] ?? "")], reply_to_id: `msg_${ordinal - 1}`, ...at });
  };
  const page = (before: number, limit: number): readonly Message[] => {
    const size = Math.min(limit, before - 1);
    return Array.from({ length: size }, (_, index) => one(before - size + index));
  };
  core.answers.set("messages.list", async ({ before, limit }) => {
    const messages = page(before as number, limit as number);
    await new Promise((resolve) => setTimeout(resolve, 15));
    return { messages: messages as never, more: (messages[0]?.ordinal ?? 1) > 1 };
  });
  return () => core.snapshot({ messages: page(count + 1, 50), more: true });
};

export const SCENES: Readonly<Record<SceneName, Scene>> = { talk, cards, offline, begin, bench, long };

/** Tells `rate` tokens per second for `seconds`, evenly; resolves with how many were told. */
export function stream(core: FakeCore, rate: number, seconds: number): Promise<number> {
  const source = Array.from({ length: 40 }, (_, index) => `## ${index}\n\n${WORDS.en.report}\n\n${WORDS.en.code}\n\n`).join("");
  const tokens = source.match(/\s*\S+|\s+/g) ?? [];
  const total = rate * seconds;
  const started = performance.now();
  let told = 0;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      const due = Math.min(total, Math.floor(((performance.now() - started) / 1000) * rate));
      while (told < due) {
        told += 1;
        core.append(STREAMED, told, tokens[told % tokens.length] ?? " ", "markdown");
      }
      if (told < total) return;
      clearInterval(timer);
      resolve(told);
    }, 4);
  });
}
