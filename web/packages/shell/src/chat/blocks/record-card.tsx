// What an app's operation came to, as the app left it in the conversation. Nothing in it can change any more.

import type { Block } from "@lineloop/ui-model";
import { useForms, useText } from "../../i18n/index.ts";
import { AppIcon } from "../../workspace/app-icon.tsx";
import { visibleLine } from "../../workspace/visible-text.ts";
import { outcomeText, reasonText } from "../model/outcome-words.ts";
import { readRecord, type OperationRecord } from "../model/record.ts";

export function RecordCard({ block }: { readonly block: Block }) {
  const t = useText();
  const record = readRecord(block);
  if (record === null) return <p className="block block-unknown">{t("chat.card.unreadable")}</p>;
  const title = visibleLine(record.app_title, 60);
  const label = visibleLine(record.label);
  const reason = reasonText(t, record.reason);
  return (
    <div className="block block-record" data-outcome={record.outcome}>
      <AppIcon app_scope={record.app_scope} title={title} />
      <p className="record-what">
        <strong>{label === "" ? title : label}</strong>
        {label === "" ? null : <span className="record-app">{title}</span>}
      </p>
      <p className="record-how">
        {outcomeText(t, record.outcome)}
        {reason === "" ? "" : ` · ${reason}`}
      </p>
      <Span record={record} />
    </div>
  );
}

/** How long it was; of what was planned, when that is more. */
function Span({ record }: { readonly record: OperationRecord }) {
  const t = useText();
  const forms = useForms();
  const { elapsed_ms: elapsed, duration_ms: planned } = record;
  if (elapsed === null) return null;
  const short = planned !== null && planned - elapsed >= 1000;
  return (
    <p className="record-time">
      {short ? t("chat.record.of", { elapsed: forms.duration(elapsed), planned: forms.duration(planned) }) : forms.duration(elapsed)}
    </p>
  );
}
