// What lets this page in: a one-time code from the link that `lineloop open` prints, or the key it was changed for.
//
// The code is taken out of the address at once, so that it is in no history, bookmark or screenshot.

const KEY = "lineloop.shell.key";
const LOADED_ANEW = "lineloop.shell.loaded-anew";

export interface Access {
  /** The code of the address, once; null when there is none (any more). */
  takeCode(): string | null;
  key(): string | null;
  keep(key: string): void;
  forget(): void;
  /** Another tab got a key, or a new link was opened in this one. */
  onChange(listener: () => void): void;
}

export function pageAccess(page: Window): Access {
  return {
    takeCode() {
      const code = new URLSearchParams(page.location.hash.slice(1)).get("code");
      if (code === null) return null;
      page.history.replaceState(null, "", page.location.pathname + page.location.search);
      return code === "" ? null : code;
    },
    key: () => page.localStorage.getItem(KEY),
    keep: (key) => page.localStorage.setItem(KEY, key),
    forget: () => page.localStorage.removeItem(KEY),
    onChange(listener) {
      page.addEventListener("storage", (change) => {
        if (change.key === KEY && change.newValue !== null) listener();
      });
      page.addEventListener("hashchange", () => {
        if (page.location.hash.startsWith("#code=")) listener();
      });
    },
  };
}

/** Loads the page anew, with a code that was not used; once as this version, so that it is never a loop. */
export function loadAnew(page: Window, version: number): (code: string | null) => void {
  return (code) => {
    if (page.sessionStorage.getItem(LOADED_ANEW) === String(version)) return;
    page.sessionStorage.setItem(LOADED_ANEW, String(version));
    if (code !== null) page.history.replaceState(null, "", `#code=${encodeURIComponent(code)}`);
    page.location.reload();
  };
}
