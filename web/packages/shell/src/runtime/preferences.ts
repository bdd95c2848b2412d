// What a person chose for this browser: language and theme. Kept in the browser; the system's choice until then.

import { language, LOCALES, type Language } from "../i18n/index.ts";
import { Store } from "./store.ts";

export type Theme = "system" | "light" | "dark";

const LANGUAGE = "lineloop.language";
const THEME = "lineloop.theme";

export const theme = new Store<Theme>("system");

function read(storage: Storage, name: string): string | null {
  try {
    return storage.getItem(name);
  } catch {
    return null;
  }
}

function write(storage: Storage, name: string, value: string): void {
  try {
    storage.setItem(name, value);
  } catch {
    // Forbidden: the choice lasts as long as the page.
  }
}

export function preferredLanguage(kept: string | null, offered: readonly string[]): Language {
  if (kept === "en" || kept === "zh") return kept;
  const known = offered.map((tag) => tag.toLowerCase().split("-")[0]).find((tag) => tag === "en" || tag === "zh");
  return known === "zh" ? "zh" : "en";
}

/** Applies what was chosen, now and whenever it changes. */
export function startPreferences(page: Window): void {
  const { document, localStorage, navigator } = page;
  const root = document.documentElement;
  language.subscribe(() => {
    root.lang = LOCALES[language.get()];
  });
  theme.subscribe(() => {
    if (theme.get() === "system") delete root.dataset["theme"];
    else root.dataset["theme"] = theme.get();
  });
  language.set(preferredLanguage(read(localStorage, LANGUAGE), navigator.languages));
  root.lang = LOCALES[language.get()];
  const kept = read(localStorage, THEME);
  theme.set(kept === "light" || kept === "dark" ? kept : "system");
}

export function chooseLanguage(page: Window, chosen: Language): void {
  language.set(chosen);
  write(page.localStorage, LANGUAGE, chosen);
}

export function chooseTheme(page: Window, chosen: Theme): void {
  theme.set(chosen);
  write(page.localStorage, THEME, chosen);
}
