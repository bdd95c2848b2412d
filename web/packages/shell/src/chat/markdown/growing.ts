// Markdown that grows: top-level blocks that are finished stay as they are, only the open one at the end is parsed
// again. The same text read at once gives the same parts.

import { Lexer, type Token, type Tokens } from "marked";
import { safeHtml, type SafeHtml } from "./policy.ts";
import { htmlOf } from "./render.ts";

export type Part =
  /** `source` is the HTML before it was made safe. */
  | { readonly kind: "html"; readonly key: number; readonly source: string; readonly html: SafeHtml }
  /** A paragraph of words that are at most emphasised or code: nothing of it needs to be read as HTML. */
  | { readonly kind: "words"; readonly key: number; readonly words: readonly Words[] }
  | { readonly kind: "code"; readonly key: number; readonly language: string; readonly text: string; readonly closed: boolean };

/** Text, in which a line break is one, or words within an element that says how they are meant. */
export type Words = string | { readonly as: "strong" | "em" | "del" | "code"; readonly words: readonly Words[] };

interface Stretch {
  readonly raw: string;
  readonly part: Part | null;
}

const DEFINITION = /^ {0,3}\[[^\]]+\]:/m;
/** A sign that is written by its name or number. */
const ENTITY = /&(?:#\d+|#[Xx][\da-fA-F]+|\w+);/;
const LEXER = { gfm: true, breaks: true } as const;

export class GrowingMarkdown {
  #text = "";
  #whole = false;
  /** Blocks that no further text can change, and the text they came from. */
  #finished: Part[] = [];
  #finishedText = "";
  #parts: readonly Part[] = [];

  /** The parts of `text`. `open`: more may follow. */
  read(text: string, open: boolean): readonly Part[] {
    // A link's address may stand below it: only the whole text, read at once, has all of them.
    const whole = !open && DEFINITION.test(text);
    if (text === this.#text && whole === this.#whole) return this.#parts;
    this.#text = text;
    const source = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
    if (whole || this.#whole || !source.startsWith(this.#finishedText)) this.#restart();
    this.#whole = whole;
    const stretches = this.#stretches(source.slice(this.#finishedText.length));
    const last = whole ? 0 : Math.max(stretches.findLastIndex((one) => one.part !== null), 0);
    for (const { raw, part } of stretches.slice(0, last)) {
      this.#finishedText += raw;
      if (part !== null) this.#finished.push(part);
    }
    this.#parts = [...this.#finished, ...stretches.slice(last).flatMap((one) => one.part ?? [])];
    return this.#parts;
  }

  #restart(): void {
    this.#finished = [];
    this.#finishedText = "";
  }

  #stretches(tail: string): Stretch[] {
    let key = this.#finished.length;
    return new Lexer(LEXER).lex(tail).map((token) => {
      const part = partOf(token, key, this.#parts[key]);
      if (part !== null) key += 1;
      return { raw: token.raw, part };
    });
  }
}

function partOf(token: Token, key: number, before: Part | undefined): Part | null {
  if (token.type === "space" || token.type === "def") return null;
  if (token.type === "code") {
    const code = token as Tokens.Code;
    const fenced = code.codeBlockStyle !== "indented";
    const closed = !fenced || /\n {0,3}(`{3,}|~{3,})[ \t]*\n*$/.test(code.raw);
    const language = (code.lang ?? "").split(/\s/, 1)[0] ?? "";
    return { kind: "code", key, language, text: code.text, closed };
  }
  const words = token.type === "paragraph" ? wordsOf((token as Tokens.Paragraph).tokens) : null;
  if (words !== null) return { kind: "words", key, words };
  const source = htmlOf([token]);
  if (before?.kind === "html" && before.source === source) return before;
  return { kind: "html", key, source, html: safeHtml(source) };
}

/** null when there is anything else among them, as a link. */
function wordsOf(tokens: readonly Token[]): readonly Words[] | null {
  const words: Words[] = [];
  for (const token of tokens) {
    const read = wordOf(token);
    if (read === null) return null;
    const last = words.at(-1);
    if (typeof read === "string" && typeof last === "string") words[words.length - 1] = last + read;
    else words.push(read);
  }
  return words;
}

function wordOf(token: Token): Words | null {
  switch (token.type) {
    case "text": {
      const { text, tokens } = token as Tokens.Text;
      return tokens === undefined && !ENTITY.test(text) ? text : null;
    }
    case "escape":
      return (token as Tokens.Escape).text;
    case "br":
      return "\n";
    case "codespan":
      return { as: "code", words: [(token as Tokens.Codespan).text] };
    case "strong":
    case "em":
    case "del": {
      const words = wordsOf((token as Tokens.Strong).tokens);
      return words === null ? null : { as: token.type, words };
    }
    default:
      return null;
  }
}
