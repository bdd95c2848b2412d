// What a browser sees that has no key: why, and the one command that lets it in.

import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { useText } from "../i18n/index.ts";
import { Mark } from "../workspace/rail.tsx";
import { OPEN_COMMAND } from "../workspace/status.tsx";

export function Door() {
  const t = useText();
  const [copied, setCopied] = useState(false);
  const copy = () =>
    navigator.clipboard.writeText(OPEN_COMMAND).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  return (
    <main className="door">
      <Mark />
      <h1>{t("door.title")}</h1>
      <p className="lead">{t("door.why")}</p>
      <p>{t("door.how")}</p>
      <p className="command">
        <code>{OPEN_COMMAND}</code>
        <button type="button" className="button small" onClick={() => void copy()}>
          {copied ? <Check aria-hidden size={15} /> : <Copy aria-hidden size={15} />}
          <span role="status">{copied ? t("door.copied") : t("door.copy")}</span>
        </button>
      </p>
      <p className="muted">{t("door.after")}</p>
    </main>
  );
}
