import { expect, test } from "vitest";
import { en } from "../../src/i18n/en.ts";
import { makeForms, makeText } from "../../src/i18n/index.ts";
import { zh } from "../../src/i18n/zh.ts";
import type { Entry } from "../../src/i18n/text.ts";
import { preferredLanguage } from "../../src/runtime/preferences.ts";

const holes = (entry: Entry) => (typeof entry === "string" ? [...entry.matchAll(/\{(\w+)\}/g)].map((hole) => hole[1]).sort() : []);

test("both languages say the same things, with the same places to fill in", () => {
  expect(Object.keys(zh).sort()).toEqual(Object.keys(en).sort());
  for (const [key, entry] of Object.entries(en) as [keyof typeof en, Entry][]) {
    const other: Entry = zh[key];
    expect([key, other === "" || other === undefined]).toEqual([key, false]);
    if (typeof entry === "string" && typeof other === "string") expect([key, holes(other)]).toEqual([key, holes(entry)]);
  }
});

test("places are filled in as they are, whatever is in them", () => {
  const t = makeText("en");
  expect(t("workspace.close", { app: "<b>$& {app}</b>" })).toBe("Close <b>$& {app}</b>");
  expect(t("link.gone.next", { seconds: 1 })).toBe("Trying again in 1 second");
  expect(t("link.gone.next", { seconds: 3 })).toBe("Trying again in 3 seconds");
  expect(t("connection.offline", { waiting: 0 })).toBe("Offline");
  expect(t("connection.offline", { waiting: 1200 })).toBe("Offline · 1,200 messages wait");
  expect(makeText("zh")("connection.offline", { waiting: 3 })).toBe("离线 · 3 条消息等待发送");
});

test("times and days are said as people do", () => {
  const now = new Date(2026, 2, 29, 12).getTime();
  const hours = 3_600_000;
  const en_ = makeForms("en");
  expect(en_.ago(now - 300_000, now)).toBe("5 minutes ago");
  expect(en_.ago(now - 50 * hours, now)).toBe("2 days ago");
  expect(en_.day(now - 13 * hours, now)).toBe("yesterday");
  expect(en_.day(now, now)).toBe("today");
  expect(en_.day(now - 49 * hours, now)).toBe("Mar 27, 2026");
  expect(en_.time(now)).toBe("12:00");
  expect(makeForms("zh").day(now - 13 * hours, now)).toBe("昨天");
});

test("the language is the one that was chosen, else the browser's first that is known, else English", () => {
  expect(preferredLanguage("zh", ["en"])).toBe("zh");
  expect(preferredLanguage(null, ["fr-FR", "zh-Hans-CN", "en"])).toBe("zh");
  expect(preferredLanguage("fr", ["de"])).toBe("en");
});
