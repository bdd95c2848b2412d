// Texts of others, shown so that they look like what they are: characters that hide, or turn the direction of
// what follows, are written out. Used where a person decides by what is read.

// Controls (but not tab and line feed), soft hyphen, joiners and marks of direction, line and paragraph separators,
// invisible operators, the byte order mark, tags.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

export function visibleText(text: string): string {
  return text.replace(HIDDEN, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}

/** One line of an app's own words: nothing hidden, no line breaks, not longer than `limit` characters. */
export function visibleLine(text: string, limit = 120): string {
  const line = visibleText(text.replace(/\s+/g, " ").trim());
  const characters = [...line];
  return characters.length <= limit ? line : characters.slice(0, limit - 1).join("") + "…";
}
