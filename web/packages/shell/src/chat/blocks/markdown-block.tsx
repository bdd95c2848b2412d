// Markdown as it grows: finished parts keep their elements, only the open one is written anew.

import { memo, useState } from "react";
import { GrowingMarkdown } from "../markdown/growing.ts";
import type { SafeHtml } from "../markdown/policy.ts";
import { CodeBlock } from "./code-block.tsx";

export const MarkdownBlock = memo(function MarkdownBlock({ text, open }: { readonly text: string; readonly open: boolean }) {
  const [markdown] = useState(() => new GrowingMarkdown());
  return (
    <div className="block block-markdown">
      {markdown.read(text, open).map((part) =>
        part.kind === "code" ? (
          <CodeBlock key={part.key} text={part.text} language={part.language} closed={part.closed || !open} />
        ) : part.kind === "plain" ? (
          <div key={part.key} className="markdown">
            <p className="markdown-plain">{part.text}</p>
          </div>
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
