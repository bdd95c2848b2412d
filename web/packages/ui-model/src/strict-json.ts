// Strict JSON: what JSON.parse forgives and the Runtime does not (spec/protocol.md §1.3): names given twice, lone
// surrogates, numbers beyond the floats.

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORD = /true|false|null/y;

/** Throws SyntaxError unless `text` is strict JSON that nests at most `maxDepth` levels. */
export function checkStrictJson(text: string, maxDepth = 1_000): void {
  new Reader(text, maxDepth).readDocument();
}

/** The value of strict JSON. Throws SyntaxError. */
export function parseStrictJson(text: string, maxDepth?: number): unknown {
  checkStrictJson(text, maxDepth);
  return JSON.parse(text);
}

class Reader {
  readonly #text: string;
  readonly #limit: number;
  #at = 0;

  constructor(text: string, limit: number) {
    this.#text = text;
    this.#limit = limit;
  }

  readDocument(): void {
    this.#value(0);
    if (this.#at !== this.#text.length) fail("something follows the value");
  }

  #value(depth: number): void {
    if (depth > this.#limit) fail(`nested more than ${this.#limit} levels`);
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
      if (names.has(name)) fail(`the name '${name}' occurs twice in one object`);
      names.add(name);
      this.#match(SPACE);
      if (!this.#take(":")) fail("a colon is missing");
      this.#value(depth);
    } while (this.#take(","));
    if (!this.#take("}")) fail("an object does not end");
  }

  #list(depth: number): void {
    this.#enter(depth);
    if (this.#take("]")) return;
    do this.#value(depth);
    while (this.#take(","));
    if (!this.#take("]")) fail("a list does not end");
  }

  #enter(depth: number): void {
    if (depth > this.#limit) fail(`nested more than ${this.#limit} levels`);
    this.#at += 1;
    this.#match(SPACE);
  }

  #string(): string {
    const literal = this.#match(STRING);
    if (literal === undefined) fail("a text is not well-formed");
    const value = JSON.parse(literal) as string;
    if (/[\ud800-\udfff]/u.test(value)) fail("a lone surrogate is not text");
    return value;
  }

  #number(): void {
    const literal = this.#match(NUMBER);
    if (literal === undefined) fail("this is no JSON value");
    if (/[.eE]/.test(literal) && !Number.isFinite(Number(literal))) fail("a number is too large");
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

function fail(message: string): never {
  throw new SyntaxError(message);
}
