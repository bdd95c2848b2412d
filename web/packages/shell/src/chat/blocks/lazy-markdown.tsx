// Markdown's reader and purifier are fetched after the page stands; until they are there its text is shown as it is.

import { Store, useStore } from "../../runtime/store.ts";
import type { MarkdownBlock } from "./markdown-block.tsx";

const fetched = new Store<typeof MarkdownBlock | null>(null);
let fetching: Promise<void> | null = null;

export function loadMarkdown(): Promise<void> {
  fetching ??= import("./markdown-block.tsx").then(
    (part) => fetched.set(part.MarkdownBlock),
    () => {
      // The Runtime was not there: the next one that is wanted tries again.
      fetching = null;
    },
  );
  return fetching;
}

/** After the first paint. */
export function loadMarkdownSoon(): () => void {
  const timer = setTimeout(() => void loadMarkdown());
  return () => clearTimeout(timer);
}

export function LazyMarkdown({ text, open }: { readonly text: string; readonly open: boolean }) {
  const Drawn = useStore(fetched);
  if (Drawn !== null) return <Drawn text={text} open={open} />;
  return (
    <div className="block block-markdown">
      <div className="markdown">
        <p className="block-text">{text}</p>
      </div>
    </div>
  );
}
