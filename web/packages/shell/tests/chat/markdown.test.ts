// @vitest-environment jsdom
import { describe, expect, test } from "vitest";
import { GrowingMarkdown, type Part } from "../../src/chat/markdown/growing.ts";
import { safeHtml } from "../../src/chat/markdown/policy.ts";
import { hostOf, htmlOf } from "../../src/chat/markdown/render.ts";
import { highlighted } from "../../src/chat/blocks/highlight.ts";
import { WORDS } from "../../dev/scene-words.ts";

const read = (text: string, open = false): readonly Part[] => new GrowingMarkdown().read(text, open);
const html = (text: string): string =>
  read(text)
    .map((part) => (part.kind === "html" ? String(part.html) : part.text))
    .join("\n");

const LONG = [
  "Two *things*:\n\n1. one\n2. two\n\n| a | b |\n| - | -: |\n| 1 | 2 |\n\n> said",
  "```py\nx = 1\n\ny = 2\n```\n\n- a\n- b\n\n  more of b\n- c\n\nSetext\n===\n\n    indented",
  "~~~js\nlet x\n~~~\n文字 **粗体** [l](https://a.example)\nand **open",
].join("\n\n");

describe("markdown that grows", () => {
  test("is at every length what the same text gives at once", () => {
    const growing = new GrowingMarkdown();
    for (let length = 1; length <= LONG.length; length += 1) {
      const text = LONG.slice(0, length);
      expect(growing.read(text, true), JSON.stringify(text.slice(-30))).toEqual(read(text, true));
    }
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
    expect(html(text)).toContain('href="https://example.org/x"');
  });

  test("code is open until its fence closes", () => {
    expect(read("```py\nx = 1", true)).toEqual([{ kind: "code", key: 0, language: "py", text: "x = 1", closed: false }]);
    expect(read("```py\nx = 1\n```", true)).toMatchObject([{ text: "x = 1", closed: true }]);
    expect(read("```py\nx = 1\n```\n\n", true)).toMatchObject([{ closed: true }]);
  });
});

describe("what markdown may bring into the page", () => {
  test("[L190] bold and code are shown; script and javascript: links are not", () => {
    expect(html("**bold** and `code`")).toContain("<strong>bold</strong> and <code>code</code>");
    expect(html("<script>alert(1)</script>")).not.toMatch(/<script/i);
    expect(html("[x](javascript:alert(1))")).not.toMatch(/href|javascript/i);
    expect(html("[x](data:text/html,hi)")).not.toMatch(/href/i);
    expect(html("[x](JaVaScRiPt&#58;alert(1))")).not.toMatch(/href/i);
  });

  test("HTML stays text", () => {
    const shown = document.createElement("div");
    shown.innerHTML = html('a <img src=x onerror="alert(1)"> <b>b</b> <a href="https://evil.example">c</a>');
    expect(shown.querySelector("img, b, a, script")).toBeNull();
    expect(shown.textContent).toContain('<img src=x onerror="alert(1)">');
  });

  test("an image is a link that nobody follows by itself", () => {
    const shown = document.createElement("div");
    shown.innerHTML = html("![secret](http://sink.example/?secret) ![](http://sink.example/b.png)");
    expect(shown.querySelectorAll("img, picture, video, audio, iframe, object")).toHaveLength(0);
    const links = [...shown.querySelectorAll("a")];
    expect(links.map((link) => link.getAttribute("href"))).toEqual([
      "http://sink.example/?secret",
      "http://sink.example/b.png",
    ]);
    expect(links[0]?.textContent).toContain("sink.example");
  });

  test("a link shows its host, opens elsewhere and tells nobody where from", () => {
    const shown = document.createElement("div");
    shown.innerHTML = html("[my bank](https://evil.example/login) <https://plain.example/a>");
    const [link, plain] = [...shown.querySelectorAll("a")];
    expect(link?.textContent).toBe("my bank evil.example");
    expect([link?.rel, link?.target]).toEqual(["noopener noreferrer nofollow", "_blank"]);
    expect(plain?.textContent).toBe("https://plain.example/a");
    expect([hostOf("ftp://x"), hostOf("//x"), hostOf("/x"), hostOf("mailto:a@b.example")]).toEqual([null, null, null, "a@b.example"]);
  });

  test("what the purifier is given by mistake gets no further", () => {
    const bad = '<svg onload="x"><style>*{}</style></svg><p style="x" class="card" data-x="1" onclick="x">ok</p><form><button>b</button></form>';
    expect(String(safeHtml(bad))).toBe("<p>ok</p>b");
    expect(String(safeHtml('<a href="javascript:x">a</a><a href="https://a.example" target="_top">b</a>'))).not.toMatch(/javascript|_top/);
  });

  test("headings begin below those of the page, tasks are signs and not fields", () => {
    expect(htmlOf([])).toBe("");
    expect(html("# One")).toContain("<h3>One</h3>");
    expect(html("- [x] done\n- [ ] open")).toMatch(/☑ [\s\S]*☐ /);
    expect(html("- [x] done")).not.toContain("<input");
  });
});

test("colouring code changes none of it", () => {
  for (const { code, report } of Object.values(WORDS)) {
    for (const text of [code, report, 'x = "open', "/* open", "a // b\nhttp://c // d", "`a\\`b`"]) {
      expect(highlighted(text).map((piece) => piece.text).join("")).toBe(text);
    }
  }
  expect(highlighted('return "a" # why').filter((piece) => piece.kind !== null)).toEqual([
    { kind: "word", text: "return" },
    { kind: "string", text: '"a"' },
    { kind: "comment", text: "# why" },
  ]);
});
