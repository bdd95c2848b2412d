// Titles that an app's author gave in two languages at once, `Stop the focus timer (停止计时)`: the part in the
// person's language. Anything that is not exactly that is shown as it is.

import type { Language } from "./index.ts";

const TWO_PARTS = /^([^()]+) \(([^()]+)\)$/;
const HAN = /\p{Script=Han}/u;
const LETTER = /\p{L}/u;

/** The part of a title of two languages that is in `language`; every other title whole. */
export function inLanguage(title: string, language: Language): string {
  const [, outer, inner] = TWO_PARTS.exec(title) ?? [];
  if (outer === undefined || inner === undefined || HAN.test(outer) === HAN.test(inner)) return title;
  if (!LETTER.test(outer) || !LETTER.test(inner)) return title;
  return HAN.test(outer) === (language === "zh") ? outer : inner;
}
