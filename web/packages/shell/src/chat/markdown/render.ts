// Markdown tokens as HTML. HTML in the source stays text; a link shows where it leads; an image becomes a link, for
// nothing is loaded from elsewhere unless the person asks for it.

import { Parser, Renderer, type Token, type Tokens } from "marked";

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

export const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => ESCAPES[sign] ?? sign);

const LINK_TARGET = /^(?:https?:\/\/|mailto:)/i;

/** Where a link leads, as people read it; null when it leads nowhere one may go. */
export function hostOf(href: string): string | null {
  if (!LINK_TARGET.test(href.trim())) return null;
  try {
    const url = new URL(href.trim());
    return url.protocol === "mailto:" ? url.pathname : url.host;
  } catch {
    return null;
  }
}

class MessageRenderer extends Renderer<string, string> {
  override html({ text }: Tokens.HTML | Tokens.Tag): string {
    return escaped(text);
  }

  override link({ href, tokens, text }: Tokens.Link): string {
    const shown = this.parser.parseInline(tokens);
    return anchor(href, shown, text, null);
  }

  override image({ href, text }: Tokens.Image): string {
    return anchor(href, escaped(text === "" ? href : text), text, "image-link");
  }

  override checkbox({ checked }: Tokens.Checkbox): string {
    return checked ? "☑ " : "☐ ";
  }

  override table(token: Tokens.Table): string {
    return `<div class="table-scroll">${super.table(token)}</div>`;
  }

  override heading({ tokens, depth }: Tokens.Heading): string {
    const level = Math.min(depth + 2, 6);
    return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
  }
}

function anchor(href: string, shown: string, words: string, kind: string | null): string {
  const host = hostOf(href);
  if (host === null) return `<span>${shown}</span>`;
  const said = words.includes(host) ? "" : ` <span class="link-host">${escaped(host)}</span>`;
  const marked = kind === null ? "" : ` class="${kind}"`;
  return `<a href="${escaped(href.trim())}"${marked} title="${escaped(href.trim())}">${shown}${said}</a>`;
}

const renderer = new MessageRenderer({ gfm: true, breaks: true });
const parser = new Parser<string, string>({ gfm: true, breaks: true, renderer });
renderer.parser = parser;

/** The HTML of some top-level tokens. It is not safe yet: what goes into a page goes through policy.ts. */
export const htmlOf = (tokens: Token[]): string => parser.parse(tokens);
