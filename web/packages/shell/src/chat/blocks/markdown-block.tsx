// Markdown as it grows: finished parts keep their elements, only the open one is written anew.

import { memo, useState, type ReactNode } from "react";
import { GrowingMarkdown, type Words } from "../markdown/growing.ts";
import type { SafeHtml } from "../markdown/policy.ts";
import { CodeBlock } from "./code-block.tsx";

export const MarkdownBlock = memo(function MarkdownBlock({ text, open }: { readonly text: string; readonly open: boolean }) {
  const [markdown] = useState(() => new GrowingMarkdown());
  return (
    <div className="block block-markdown">
      {markdown.read(text, open).map((part) =>
        part.kind === "code" ? (
          <CodeBlock key={part.key} text={part.text} language={part.language} closed={part.closed || !open} />
        ) : part.kind === "words" ? (
          <WordsPart key={part.key} words={part.words} />
        ) : (
          <HtmlPart key={part.key} html={part.html} />
        ),
      )}
    </div>
  );
});

const HtmlPart = memo(function HtmlPart({ html }: { readonly html: SafeHtml }) {
  return <div className="markdown" dangerouslySetInnerHTML={{ __html: html }} />;
});

const WordsPart = memo(function WordsPart({ words }: { readonly words: readonly Words[] }) {
  return (
    <div className="markdown">
      <p className="markdown-words">{words.map(drawWords)}</p>
    </div>
  );
});

// What stands before a word never changes while more comes, so its place is its key.
function drawWords(word: Words, place: number): ReactNode {
  if (typeof word === "string") return word;
  const Element = word.as;
  return <Element key={place}>{word.words.map(drawWords)}</Element>;
}
