// Markdown in pieces equals markdown at once. What is let into the page is another matter (markdown.test.ts).

import { describe, expect, test, vi } from "vitest";
import { GrowingMarkdown, type Part } from "../../src/chat/markdown/growing.ts";

vi.mock("../../src/chat/markdown/policy.ts", () => ({ safeHtml: (html: string) => html }));

const read = (text: string, open = false): readonly Part[] => new GrowingMarkdown().read(text, open);

const LONG = [
  "Two *things*:\n\n1. one\n2. two\n\n| a | b |\n| - | -: |\n| 1 | 2 |\n\n> said",
  "```py\nx = 1\n\ny = 2\n```\n\n- a\n- b\n\n  more of b\n- c\n\nSetext\n===\n\n    indented",
  "~~~js\nlet x\n~~~\n文字 **粗体** [l](https://a.example)\nand **open",
].join("\n\n");

describe("markdown that grows", () => {
  test("is at every length what the same text gives at once", () => {
    const growing = new GrowingMarkdown();
    const differs: string[] = [];
    for (let length = 1; length <= LONG.length; length += 1) {
      const text = LONG.slice(0, length);
      // Compared as text: a matcher for each length would take most of the time.
      if (JSON.stringify(growing.read(text, true)) !== JSON.stringify(read(text, true))) differs.push(text.slice(-30));
    }
    expect(differs).toEqual([]);
    expect(growing.read(LONG, false)).toEqual(read(LONG));
  });

  test("keeps the parts that are finished as they are", () => {
    const growing = new GrowingMarkdown();
    const before = growing.read("# One\n\n*two*\n\nthree", true);
    const after = growing.read("# One\n\n*two*\n\nthree and **four**", true);
    expect(after.slice(0, 2).map((part, index) => part === before[index])).toEqual([true, true]);
  });

  test("reads text that was replaced from the start", () => {
    const growing = new GrowingMarkdown();
    growing.read("# One\n\ntwo\n\nthree", true);
    expect(growing.read("other", true)).toEqual(read("other", true));
  });

  test("a link whose address stands below it is one when the text has ended", () => {
    const growing = new GrowingMarkdown();
    const text = "See [it][a].\n\nMore.\n\n[a]: https://example.org/x";
    growing.read(text, true);
    expect(growing.read(text, false)).toEqual(read(text));
    expect(read(text)).toMatchObject([{ html: expect.stringContaining('href="https://example.org/x"') as string }, {}]);
  });

  test("code is open until its fence closes", () => {
    expect(read("```py\nx = 1", true)).toEqual([{ kind: "code", key: 0, language: "py", text: "x = 1", closed: false }]);
    expect(read("```py\nx = 1\n```", true)).toMatchObject([{ text: "x = 1", closed: true }]);
    expect(read("```py\nx = 1\n```\n\n", true)).toMatchObject([{ closed: true }]);
  });
});
