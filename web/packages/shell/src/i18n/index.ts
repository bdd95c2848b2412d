// The language of the page: typed keys, one file per language, plural and time forms by Intl.
//
//   const t = useText();  t("connection.waiting", { count: 3 })
//
// Other parts of the shell add their entries in their own `strings.<language>.ts`, joined in en.ts and zh.ts.

import { Store, useStore } from "../runtime/store.ts";
import { en } from "./en.ts";
import { fill, type Entry, type Fill, type Forms, type Values } from "./text.ts";
import { zh } from "./zh.ts";

export type Language = "en" | "zh";
export type Key = keyof typeof en;

type Rest<K extends Key> = Fill<(typeof en)[K]> extends undefined ? [] : [values: Fill<(typeof en)[K]>];
export type Text = <K extends Key>(key: K, ...rest: Rest<K>) => string;

const ENTRIES: Readonly<Record<Language, Readonly<Record<Key, Entry>>>> = { en, zh };
export const LOCALES: Readonly<Record<Language, string>> = { en: "en", zh: "zh-CN" };

/** The language that people read now; preferences set it. */
export const language = new Store<Language>("en");

const unitOf = (locale: string, unit: string) =>
  new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: "short" });

export function makeForms(chosen: Language): Forms {
  const locale = LOCALES[chosen];
  const plurals = new Intl.PluralRules(locale);
  const numbers = new Intl.NumberFormat(locale);
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const date = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });
  const midnight = (at: number) => new Date(at).setHours(0, 0, 0, 0);
  return {
    plural: (count, forms) => (plurals.select(count) === "one" ? (forms.one ?? forms.other) : forms.other),
    number: (value) => numbers.format(value),
    ago(then, now) {
      const seconds = Math.round((then - now) / 1000);
      if (Math.abs(seconds) < 60) return relative.format(seconds, "second");
      if (Math.abs(seconds) < 3600) return relative.format(Math.trunc(seconds / 60), "minute");
      if (Math.abs(seconds) < 86_400) return relative.format(Math.trunc(seconds / 3600), "hour");
      return relative.format(Math.trunc(seconds / 86_400), "day");
    },
    duration(milliseconds) {
      const total = Math.floor(milliseconds / 1000);
      const parts = [
        { value: Math.floor(total / 3600), unit: "hour" },
        { value: Math.floor(total / 60) % 60, unit: "minute" },
        { value: total % 60, unit: "second" },
      ].filter((part) => part.value > 0);
      const told = parts.length === 0 ? [{ value: 0, unit: "second" }] : parts.slice(0, 2);
      return told.map(({ value, unit }) => unitOf(locale, unit).format(value)).join(" ");
    },
    time: (at) => clock.format(at),
    day(at, now) {
      const days = Math.round((midnight(at) - midnight(now)) / 86_400_000);
      return days === 0 || days === -1 ? relative.format(days, "day") : date.format(at);
    },
  };
}

export function makeText(chosen: Language): Text {
  const forms = makeForms(chosen);
  return (key, ...rest) => {
    const entry: Entry = ENTRIES[chosen][key];
    const values = (rest[0] ?? {}) as Values;
    return typeof entry === "string" ? fill(entry, values) : entry(forms, values as never);
  };
}

export function useLanguage(): Language {
  return useStore(language);
}

// Made once for each language: the forms of Intl cost more than all else that a row of the transcript needs.
const forms = new Map<Language, Forms>();
const texts = new Map<Language, Text>();

function kept<T>(made: Map<Language, T>, chosen: Language, make: (chosen: Language) => T): T {
  const known = made.get(chosen);
  if (known !== undefined) return known;
  const fresh = make(chosen);
  made.set(chosen, fresh);
  return fresh;
}

/** The text of the chosen language, for components. */
export function useText(): Text {
  return kept(texts, useStore(language), makeText);
}

export function useForms(): Forms {
  return kept(forms, useStore(language), makeForms);
}
