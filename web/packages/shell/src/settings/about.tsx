// What this installation is and where it stands: for whoever looks for their data, or reports a fault.

import { useEffect, useState } from "react";
import { useText, type Text } from "../i18n/index.ts";
import { isObject, type JsonObject } from "@lineloop/ui-model";
import { useStore } from "../runtime/store.ts";
import { object } from "../runtime/wire.ts";
import type { Desk } from "../workspace/desk.ts";
import { standingText } from "../workspace/status.tsx";
import { visibleLine } from "../workspace/visible-text.ts";

const LINE = 400;

/** How long messages are kept; null where the server does not tell. */
function keptText(t: Text, place: unknown): string | null {
  if (!isObject(place) || !("messages_days" in place)) return null;
  const days = place["messages_days"];
  return typeof days === "number" ? t("settings.kept", { days: String(days) }) : t("settings.kept_always");
}

export function About({ desk }: { readonly desk: Desk }) {
  const t = useText();
  const welcome = useStore(desk.client.welcome);
  const link = useStore(desk.client.link);
  const connection = useStore(desk.connection);
  const [facts, setFacts] = useState<JsonObject>({});
  useEffect(() => {
    let here = true;
    desk.facts().then(
      (told) => here && setFacts(told),
      () => undefined,
    );
    return () => {
      here = false;
    };
  }, [desk, link]);
  const place = object(facts["place"]);
  const kept = keptText(t, facts["place"]);
  const lines = [
    [t("settings.version"), object(facts["versions"])["lineloop"]],
    [t("settings.device"), welcome?.["device_key"]],
    [t("settings.person"), object(welcome?.["person"])["key"]],
    [t("settings.folder"), place["data_folder"]],
    [t("settings.server"), place["server"]],
    [t("settings.connection"), standingText(t, link, connection)],
  ] as const;
  return (
    <section aria-labelledby="settings-about">
      <h2 id="settings-about">{t("settings.about")}</h2>
      <dl className="fact-list">
        {lines.map(([name, value]) =>
          typeof value === "string" && value !== "" ? (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{visibleLine(value, LINE)}</dd>
            </div>
          ) : null,
        )}
      </dl>
      {kept === null ? null : <p className="muted">{kept}</p>}
    </section>
  );
}
