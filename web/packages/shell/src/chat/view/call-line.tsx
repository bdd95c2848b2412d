// One Agent Tool call as one quiet line, kept up to date; its receipts, arguments and result are folded below it.

import { useForms, useLanguage, useText } from "../../i18n/index.ts";
import { Folded } from "../blocks/tool-block.tsx";
import { durationOf, isLive, labelOf, phaseOf, reasonOf, remainingOf } from "../model/call-words.ts";
import { useKeyed } from "../model/keyed.ts";
import { reasonText } from "../model/outcome-words.ts";
import { at, type Call, type Receipt } from "../model/wire.ts";
import { useConversation } from "./context.ts";
import { clockText } from "./names.ts";
import { useNow } from "./ticking.ts";

export function CallLines({ messageId }: { readonly messageId: string }) {
  const { transcript } = useConversation();
  const calls = useKeyed(transcript.causes, messageId);
  if (calls === undefined) return null;
  return (
    <div className="call-lines">
      {calls.map((id) => (
        <CallLine key={id} callId={id} />
      ))}
    </div>
  );
}

export function CallLine({ callId }: { readonly callId: string }) {
  const { transcript } = useConversation();
  const call = useKeyed(transcript.calls, callId);
  return call === undefined ? null : <CallView call={call} />;
}

export function CallView({ call, unfolded = false }: { readonly call: Call; readonly unfolded?: boolean }) {
  const t = useText();
  const phase = phaseOf(call);
  const label = labelOf(call, useLanguage());
  const reason = reasonOf(call, t);
  return (
    <details className="call-line" data-phase={phase} data-live={isLive(call)} open={unfolded}>
      <summary>
        <span className="call-dot" aria-hidden />
        <span className="call-app">{call.app_title}</span>
        <span className="call-label">{label}</span>
        <span className="call-phase">
          {t(`chat.call.${phase}`)}
          {reason === "" ? "" : ` · ${reason}`}
        </span>
        <CallTime call={call} />
      </summary>
      <ol className="receipts">
        {call.receipts.map((receipt) => (
          <ReceiptRow key={receipt.sequence} receipt={receipt} />
        ))}
      </ol>
      <Folded label={t("chat.tool.arguments")} value={call.params} />
      <Folded label={t("chat.tool.outcome")} value={call.error === null ? call.result : { ...call.error }} />
    </details>
  );
}

function CallTime({ call }: { readonly call: Call }) {
  const t = useText();
  const live = isLive(call);
  const now = useNow(live);
  const remaining = remainingOf(call, now);
  const duration = durationOf(call);
  if (remaining !== null) return <time className="call-time">{t("chat.call.left", { time: clockText(remaining) })}</time>;
  if (duration === null || duration < 1000) return null;
  return <time className="call-time">{clockText(duration - (duration % 1000))}</time>;
}

const STAGES = [
  "accepted",
  "starting",
  "activation_ready",
  "activation_failed",
  "activation_cancelled",
  "started",
  "progress",
] as const;
type Stage = (typeof STAGES)[number];
const isStage = (stage: string): stage is Stage => STAGES.some((one) => one === stage);

function ReceiptRow({ receipt }: { readonly receipt: Receipt }) {
  const t = useText();
  const forms = useForms();
  return (
    <li>
      <time>{forms.time(at(receipt.at))}</time>
      <span>{isStage(receipt.stage) ? t(`chat.receipt.${receipt.stage}`) : receipt.stage}</span>
      {receipt.reason ? <span className="receipt-reason">{reasonText(t, receipt.reason)}</span> : null}
    </li>
  );
}
