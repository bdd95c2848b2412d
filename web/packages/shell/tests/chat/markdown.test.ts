// @vitest-environment jsdom
import { renderToStaticMarkup } from "react-dom/server";
import { createElement } from "react";
import { describe, expect, test } from "vitest";
import { MarkdownBlock } from "../../src/chat/blocks/markdown-block.tsx";
import { safeHtml } from "../../src/chat/markdown/policy.ts";
import { hostOf, htmlOf } from "../../src/chat/markdown/render.ts";
import { highlighted } from "../../src/chat/blocks/highlight.ts";
import { WORDS } from "../../dev/scene-words.ts";

const html = (text: string): string => renderToStaticMarkup(createElement(MarkdownBlock, { text, open: false }));

describe("what markdown may bring into the page", () => {
  test("[L190] bold and code are shown; script and javascript: links are not", () => {
    expect(html("**bold** and `code`")).toContain("<strong>bold</strong> and <code>code</code>");
    expect(html("<script>alert(1)</script>")).not.toMatch(/<script/i);
    expect(html("[x](javascript:alert(1))")).not.toMatch(/href|javascript/i);
    expect(html("[x](data:text/html,hi)")).not.toMatch(/href/i);
    expect(html("[x](JaVaScRiPt&#58;alert(1))")).not.toMatch(/href/i);
  });

  test("words that are emphasised within one another are as markdown says, whether or not a link stands among them", () => {
    const words = "a *b **c `<d>` & e***  f ~~g~~ \\*h\nnext";
    const shown = (text: string) => {
      const element = document.createElement("div");
      element.innerHTML = html(text).replace("\n", "<br>");
      for (const link of element.querySelectorAll("a")) link.remove();
      return element.querySelector("p")?.innerHTML.replace(/<br>\n?/, "<br>").trim();
    };
    expect(shown(words)).toContain("<em>b <strong>c <code>&lt;d&gt;</code> &amp; e</strong></em>");
    expect(shown(words)).toBe(shown(`${words} <https://a.example>`));
  });

  test("a sign may be written by its name or number", () => {
    expect(html("Fish &amp; chips")).toContain("<p>Fish &amp; chips</p>");
    expect(html("&#169; and &copy; and R&D; `&amp;`")).toMatch(/<p>© and © and R(&amp;|&)D; <code>&amp;amp;<\/code><\/p>/);
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
