// A little colour for code of any language: comments, strings, numbers, and the words most languages share. It reads no
// grammar; what it cannot tell stays plain.

export interface Piece {
  readonly kind: "comment" | "string" | "number" | "word" | null;
  readonly text: string;
}

const WORDS =
  "abstract as async await break case catch class const continue def default del do elif else enum except export " +
  "extends false finally fn for from func function global go if impl import in interface is lambda let match mod mut " +
  "new nil none None not null of or and pass pub raise return select self static struct super switch this throw true " +
  "True False try type typeof undefined union use using var void where while with yield SELECT FROM WHERE INSERT INTO " +
  "UPDATE DELETE JOIN ON GROUP ORDER BY LIMIT VALUES SET CREATE TABLE AND OR NOT NULL";

const SCANNER = new RegExp(
  [
    String.raw`(?<comment>\/\*[\s\S]*?\*\/|(?<![:\w])\/\/[^\n]*|(?<=^|\s)#(?!\[)[^\n]*|(?<=^|\s)-- [^\n]*)`,
    String.raw`(?<string>"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|` + "`(?:\\\\.|[^`\\\\])*`)",
    String.raw`(?<number>\b(?:0x[\da-f_]+|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?)\b)`,
    String.raw`(?<word>\b(?:${WORDS.split(" ").join("|")})\b)`,
  ].join("|"),
  "gm",
);

export function highlighted(code: string): readonly Piece[] {
  const pieces: Piece[] = [];
  let place = 0;
  for (const match of code.matchAll(SCANNER)) {
    if (match.index > place) pieces.push({ kind: null, text: code.slice(place, match.index) });
    const kind = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0] as Piece["kind"];
    pieces.push({ kind, text: match[0] });
    place = match.index + match[0].length;
  }
  if (place < code.length) pieces.push({ kind: null, text: code.slice(place) });
  return pieces;
}
