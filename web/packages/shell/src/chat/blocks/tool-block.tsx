// What a Run says of a tool it calls: name and state, arguments and result folded.

import { isObject, type Block, type Json } from "@lineloop/ui-model";
import { inLanguage } from "../../i18n/bilingual.ts";
import { useLanguage, useText } from "../../i18n/index.ts";
import { text } from "../model/wire.ts";

const STATES = ["pending", "running", "dispatched", "started", "result", "completed", "error", "failed"] as const;
type ToolState = (typeof STATES)[number];
const isKnown = (state: string | null): state is ToolState => STATES.some((one) => one === state);

/** The tools that ask the person: they are ours, tools of apps have longer names. */
const OWN = ["ask", "confirm"] as const;
const isOwn = (name: string): name is (typeof OWN)[number] => OWN.some((one) => one === name);

export function ToolBlock({ block }: { readonly block: Block }) {
  const t = useText();
  const state = text(block["state"]);
  const name = text(block["name"]) ?? block.id;
  const language = useLanguage();
  const title = isOwn(name) ? t(`chat.tool.${name}`) : inLanguage(text(block["title"]) ?? name, language);
  return (
    <details className="block block-tool" data-state={state ?? ""}>
      <summary>
        <span className="tool-dot" aria-hidden />
        <span className="tool-title">{title}</span>
        {title === name || isOwn(name) ? null : <code className="tool-name">{name}</code>}
        <span className="tool-state">{isKnown(state) ? t(`chat.tool.${state}`) : (state ?? "")}</span>
      </summary>
      <Folded label={t("chat.tool.arguments")} value={block["arguments"]} />
      <Folded label={t("chat.tool.outcome")} value={block["result"]} />
    </details>
  );
}

export function Folded({ label, value }: { readonly label: string; readonly value: Json | undefined }) {
  if (value === undefined || value === null || (isObject(value) && Object.keys(value).length === 0)) return null;
  return (
    <div className="folded">
      <span>{label}</span>
      <pre>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>
    </div>
  );
}
