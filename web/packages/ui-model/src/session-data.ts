// Which JSON text is session data (spec/protocol.md §10.2). JSON.parse forgives names given twice, lone surrogates and
// numbers beyond the floats; the Runtime does not, so a client that wants to know beforehand asks here.

import { LoopError } from "./errors.ts";

export const MAX_SESSION_DEPTH = 64;
export const MAX_SESSION_BYTES = 1024 * 1024;

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;

/** Throws LoopError `session_data_invalid` or `session_data_quota_exceeded`. */
export function checkSessionText(text: string): void {
  new Reader(text).readDocument();
  if (new TextEncoder().encode(text).length > MAX_SESSION_BYTES) {
    throw new LoopError("session_data_quota_exceeded", `more than ${MAX_SESSION_BYTES} bytes`);
  }
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  readDocument(): void {
    this.#match(SPACE);
    if (this.#peek() !== "{") invalid("the top level is an object");
    this.#value(0);
    if (this.#at !== this.#text.length) invalid("something follows the object");
  }

  #value(depth: number): void {
    if (depth > MAX_SESSION_DEPTH) invalid(`nested more than ${MAX_SESSION_DEPTH} levels`);
    this.#match(SPACE);
    const first = this.#peek();
    if (first === "{") this.#object(depth + 1);
    else if (first === "[") this.#list(depth + 1);
    else if (first === '"') this.#string();
    else if (this.#match(WORD) === undefined) this.#number();
    this.#match(SPACE);
  }

  #object(depth: number): void {
    this.#enter(depth);
    if (this.#take("}")) return;
    const names = new Set<string>();
    do {
      this.#match(SPACE);
      const name = this.#string();
      if (names.has(name)) invalid(`the name '${name}' occurs twice in one object`);
      names.add(name);
      this.#match(SPACE);
      if (!this.#take(":")) invalid("a colon is missing");
      this.#value(depth);
    } while (this.#take(","));
    if (!this.#take("}")) invalid("an object does not end");
  }

  #list(depth: number): void {
    this.#enter(depth);
    if (this.#take("]")) return;
    do this.#value(depth);
    while (this.#take(","));
    if (!this.#take("]")) invalid("a list does not end");
  }

  #enter(depth: number): void {
    if (depth > MAX_SESSION_DEPTH) invalid(`nested more than ${MAX_SESSION_DEPTH} levels`);
    this.#at += 1;
    this.#match(SPACE);
  }

  #string(): string {
    const literal = this.#match(STRING);
    if (literal === undefined) invalid("a text is not well-formed");
    const value = JSON.parse(literal) as string;
    if (/[\ud800-\udfff]/u.test(value)) invalid("a lone surrogate is not text");
    return value;
  }

  #number(): void {
    const literal = this.#match(NUMBER);
    if (literal === undefined) invalid("this is no JSON value");
    if (/[.eE]/.test(literal) && !Number.isFinite(Number(literal))) invalid("a number is too large");
  }

  #peek(): string {
    return this.#text.charAt(this.#at);
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at += 1;
    return true;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }
}

function invalid(message: string): never {
  throw new LoopError("session_data_invalid", message);
}
