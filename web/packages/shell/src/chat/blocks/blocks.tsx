// The content of a message, block by block. A type that is not known here is shown as such and does nothing.

import { isObject, type Block, type Json } from "@lineloop/ui-model";
import { memo } from "react";
import { useText } from "../../i18n/index.ts";
import { withoutRecordWords } from "../model/record.ts";
import { isStreaming, shownBlocks, text, type Message } from "../model/wire.ts";
import { CodeBlock } from "./code-block.tsx";
import { LazyMarkdown } from "./lazy-markdown.tsx";
import { QuestionCard } from "./question-card.tsx";
import { RecordCard } from "./record-card.tsx";
import { ReplyCard } from "./reply-card.tsx";
import { ToolBlock } from "./tool-block.tsx";

export function Blocks({ message }: { readonly message: Message }) {
  const blocks = withoutRecordWords(message.content, shownBlocks(message.content));
  const streaming = isStreaming(message);
  return blocks.map((block, index) => (
    <BlockView key={block.id} block={block} message={message} open={streaming && index === blocks.length - 1} />
  ));
}

interface BlockProps {
  readonly block: Block;
  readonly message: Message;
  readonly open: boolean;
}

/** Drawn again only when the block itself changed: the message is for who and where, and keeps those. */
const BlockView = memo(drawBlock, (one, other) => {
  const card = one.block.type === "ask" || one.block.type === "confirm" || one.block.type === "human_reply";
  return one.block === other.block && one.open === other.open && (!card || one.message === other.message);
});

function drawBlock({ block, message, open }: BlockProps) {
  const said = text(block["content"]);
  switch (block.type) {
    case "text":
      return said === null ? <Unknown block={block} /> : <p className="block block-text">{said}</p>;
    case "markdown":
      return said === null ? <Unknown block={block} /> : <LazyMarkdown text={said} open={open} />;
    case "code":
      return said === null ? (
        <Unknown block={block} />
      ) : (
        <CodeBlock text={said} language={text(block["language"]) ?? ""} closed={!open} />
      );
    case "result":
      return <ResultBlock value={block["content"]} format={block["format"]} />;
    case "tool":
      return <ToolBlock block={block} />;
    case "error":
      return <ErrorBlock code={text(block["code"])} said={text(block["message"]) ?? ""} />;
    case "ask":
    case "confirm":
      return <QuestionCard block={block} message={message} />;
    case "record":
      return <RecordCard block={block} />;
    case "human_reply":
      return <ReplyCard block={block} />;
    default:
      return <Unknown block={block} />;
  }
}

function ResultBlock({ value, format }: { readonly value: Json | undefined; readonly format: Json | undefined }) {
  if (format === "text" && typeof value === "string") return <p className="block block-text">{value}</p>;
  return <CodeBlock text={JSON.stringify(value ?? null, null, 2)} language="json" closed />;
}

export function ErrorBlock({ code, said }: { readonly code: string | null; readonly said: string }) {
  const t = useText();
  return (
    <p className="block block-error">
      {said === "" ? t("chat.failed") : said}
      {code === null ? null : <code>{code}</code>}
    </p>
  );
}

function Unknown({ block }: { readonly block: Block }) {
  const t = useText();
  return (
    <div className="block block-unknown">
      <p>{t("chat.block.unknown", { type: block.type })}</p>
      <pre>{shortened(block)}</pre>
    </div>
  );
}

const SHOWN_AT_MOST = 2000;

function shortened(value: unknown): string {
  const whole = isObject(value) ? JSON.stringify(value, null, 2) : String(value);
  return whole.length <= SHOWN_AT_MOST ? whole : `${whole.slice(0, SHOWN_AT_MOST)}…`;
}
