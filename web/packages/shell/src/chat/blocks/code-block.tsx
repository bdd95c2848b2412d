// Code with its language and a way to copy it. It is coloured when its fence is closed, not while it grows.

import { memo, useMemo } from "react";
import { useText } from "../../i18n/index.ts";
import { CopyButton } from "../view/copy-button.tsx";
import { highlighted } from "./highlight.ts";

export interface CodeBlockProps {
  readonly text: string;
  readonly language: string;
  readonly closed: boolean;
}

const COLOURED_AT_MOST = 50_000;

export const CodeBlock = memo(function CodeBlock({ text, language, closed }: CodeBlockProps) {
  const t = useText();
  const pieces = useMemo(
    () => (closed && text.length <= COLOURED_AT_MOST ? highlighted(text) : null),
    [closed, text],
  );
  return (
    <figure className="code-block">
      <figcaption>
        <span>{language === "" ? t("chat.code") : language}</span>
        <CopyButton text={text} />
      </figcaption>
      {/* A wide block scrolls by keyboard, too. */}
      <pre tabIndex={0} aria-label={language === "" ? t("chat.code") : language}>
        <code>
          {pieces === null
            ? text
            : pieces.map((piece, index) =>
                piece.kind === null ? (
                  piece.text
                ) : (
                  <span key={index} className={`code-${piece.kind}`}>
                    {piece.text}
                  </span>
                ),
              )}
        </code>
      </pre>
    </figure>
  );
});
