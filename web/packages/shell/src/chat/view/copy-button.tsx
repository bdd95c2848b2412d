// Copies text, and says that it did.

import { Check, Copy } from "lucide-react";
import { useEffect, useState } from "react";
import { useText } from "../../i18n/index.ts";

const SAID_MS = 1600;

export function CopyButton({ text }: { readonly text: string }) {
  const t = useText();
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), SAID_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  };
  const label = copied ? t("chat.copied") : t("chat.copy");
  return (
    <button type="button" className="quiet-button" onClick={copy} aria-label={label} title={label}>
      {copied ? <Check size={15} aria-hidden /> : <Copy size={15} aria-hidden />}
    </button>
  );
}
