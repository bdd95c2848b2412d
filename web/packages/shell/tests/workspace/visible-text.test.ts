import { expect, test } from "vitest";
import { visibleLine, visibleText } from "../../src/workspace/visible-text.ts";

test("what hides or turns the direction of a text is written out", () => {
  expect(visibleText("pay\u202eeur 001\u202c now")).toBe("pay⟨U+202E⟩eur 001⟨U+202C⟩ now");
  expect(visibleText("a\u200bb\u0000c\ufeff")).toBe("a⟨U+200B⟩b⟨U+0000⟩c⟨U+FEFF⟩");
  expect(visibleText("x\u{e0041}")).toBe("x⟨U+E0041⟩");
  expect(visibleText("one\n\ttwo 汉字 é 😀")).toBe("one\n\ttwo 汉字 é 😀");
});

test("a line is one line, and not longer than it may be, whole characters only", () => {
  expect(visibleLine("  Delete\r\n all\tfiles ")).toBe("Delete all files");
  expect(visibleLine("😀😀😀😀", 3)).toBe("😀😀…");
});
