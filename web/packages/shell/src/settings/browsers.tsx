// The browsers that may open this device: when each was used last, which is this one, and sending one away.

import { LoopError } from "@lineloop/ui-model";
import { Monitor } from "lucide-react";
import { useCallback, useEffect, useState } from "react";
import { useForms, useText } from "../i18n/index.ts";
import { announce } from "../runtime/announce.ts";
import { useStore } from "../runtime/store.ts";
import type { Desk } from "../workspace/desk.ts";
import type { BrowserKey } from "../workspace/shapes.ts";
import { visibleLine } from "../workspace/visible-text.ts";

export function Browsers({ desk }: { readonly desk: Desk }) {
  const t = useText();
  const link = useStore(desk.client.link);
  const [keys, setKeys] = useState<readonly BrowserKey[] | null>(null);
  const [failed, setFailed] = useState<string | null>(null);
  const [asked, setAsked] = useState<string | null>(null);
  const look = useCallback(async () => {
    try {
      setKeys(await desk.keys());
      setFailed(null);
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      setFailed(error.code);
    }
  }, [desk]);
  useEffect(() => {
    if (link === "online") void look();
  }, [link, look]);

  const revoke = async (key: BrowserKey) => {
    setAsked(null);
    try {
      await desk.revokeKey(key.name);
      announce(t("settings.browsers.revoked"));
    } catch (error) {
      if (!(error instanceof LoopError)) throw error;
      // One that is gone already is what was wanted.
      if (error.code !== "not_found") {
        setFailed(error.code);
        return;
      }
    }
    await look();
  };

  return (
    <section aria-labelledby="settings-browsers">
      <h2 id="settings-browsers">{t("settings.browsers")}</h2>
      <p className="muted">{t("settings.browsers.why")}</p>
      {failed === null ? null : (
        <p role="alert" className="setting-failed">
          {t("settings.browsers.failed")} <code>{failed}</code>
        </p>
      )}
      <ul className="key-list" aria-label={t("settings.browsers")}>
        {keys?.map((key) => (
          <Row key={key.name} entry={key} asked={asked === key.name} onAsk={setAsked} onRevoke={() => void revoke(key)} />
        ))}
      </ul>
    </section>
  );
}

interface RowProps {
  readonly entry: BrowserKey;
  readonly asked: boolean;
  readonly onAsk: (name: string | null) => void;
  readonly onRevoke: () => void;
}

function Row({ entry, asked, onAsk, onRevoke }: RowProps) {
  const t = useText();
  const forms = useForms();
  const [now] = useState(() => Date.now());
  const name = entry.browser === "" ? t("settings.browsers.unnamed") : visibleLine(entry.browser, 60);
  const used = entry.open ? t("settings.browsers.open") : t("settings.browsers.used", { ago: forms.ago(entry.used_at, now) });
  return (
    <li className="key-row" data-here={entry.here || undefined}>
      <Monitor size={18} aria-hidden />
      <span className="key-text">
        <span className="key-name">
          {name}
          {entry.here ? <span className="tag">{t("settings.browsers.here")}</span> : null}
        </span>
        <span className="muted">
          {used} · {t("settings.browsers.since", { day: forms.day(entry.created_at, now) })}
        </span>
      </span>
      {asked ? (
        <span className="key-sure" role="group" aria-label={t("settings.browsers.sure", { browser: name })}>
          <span>{t(entry.here ? "settings.browsers.sure_here" : "settings.browsers.sure_short")}</span>
          <button type="button" className="button small danger" autoFocus onClick={onRevoke}>
            {t("settings.browsers.revoke")}
          </button>
          <button type="button" className="button small quiet" onClick={() => onAsk(null)}>
            {t("settings.browsers.keep")}
          </button>
        </span>
      ) : (
        <button
          type="button"
          className="button small"
          aria-label={t("settings.browsers.revoke_named", { browser: name })}
          onClick={() => onAsk(entry.name)}
        >
          {t("settings.browsers.revoke")}
        </button>
      )}
    </li>
  );
}
