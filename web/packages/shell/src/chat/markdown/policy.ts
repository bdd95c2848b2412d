// The one door through which HTML gets into the page. Everything goes through DOMPurify with a short list of what may
// stand in a message; the Trusted Types policy is not exported, so nobody else can make trusted HTML with it.

import DOMPurify, { type Config } from "dompurify";

interface Policy {
  createHTML(html: string): unknown;
  createScriptURL(url: string): unknown;
}
interface PolicyFactory {
  createPolicy(name: string, rules: { createHTML(html: string): string; createScriptURL(url: string): string }): Policy;
}

const TAGS = [
  ...["a", "b", "blockquote", "br", "code", "del", "div", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li"],
  ...["ol", "p", "pre", "span", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"],
];
const ATTRIBUTES = ["href", "title", "rel", "target", "class", "start", "align"];
const CLASSES = /^(link-host|image-link|table-scroll|language-[\w+#.-]{1,40})$/;

const CONFIG: Config = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ATTRIBUTES,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  RETURN_TRUSTED_TYPE: true,
};

/** HTML that may be set as `innerHTML`: a TrustedHTML where the browser has Trusted Types, else a string. */
export type SafeHtml = string & { readonly safe: unique symbol };

let purify: ((html: string) => SafeHtml) | undefined;

export function safeHtml(html: string): SafeHtml {
  purify ??= makePurify();
  return purify(html);
}

function makePurify(): (html: string) => SafeHtml {
  const factory = (globalThis as { trustedTypes?: PolicyFactory }).trustedTypes;
  const refuse = (): string => {
    throw new TypeError("a message never loads scripts");
  };
  const policy = factory?.createPolicy("lineloop-markdown", { createHTML: (html) => html, createScriptURL: refuse });
  const config = (policy === undefined ? CONFIG : { ...CONFIG, TRUSTED_TYPES_POLICY: policy }) as Config;
  DOMPurify.addHook("uponSanitizeAttribute", (_node, data) => {
    if (data.attrName === "class") data.keepAttr = CLASSES.test(data.attrValue);
  });
  DOMPurify.addHook("afterSanitizeAttributes", (node) => {
    if (node.tagName !== "A") return;
    if (!node.hasAttribute("href")) node.removeAttribute("target");
    else node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  });
  return (html) => DOMPurify.sanitize(html, config) as unknown as SafeHtml;
}
