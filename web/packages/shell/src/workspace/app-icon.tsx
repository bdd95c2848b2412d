// The sign of an app: its own picture, or the first letter of its name on a colour made from its scope.

import { createContext, use, type CSSProperties } from "react";

/** The picture of an app by its scope, for parts that know no more of it; null when it has none. */
export const AppPictures = createContext<(app_scope: string) => string | null>(() => null);

export interface AppIconProps {
  readonly app_scope: string;
  readonly title: string;
  /** Left out: the picture that AppPictures knows. */
  readonly icon?: string | null;
}

export function AppIcon({ app_scope, title, icon: own }: AppIconProps) {
  const pictureOf = use(AppPictures);
  const icon = own === undefined ? pictureOf(app_scope) : own;
  // Only pictures that came with the answer itself; none is ever fetched.
  if (icon?.startsWith("data:image/")) return <img className="app-icon" src={icon} alt="" />;
  const hue = [...app_scope].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 360, 7);
  // A picture, not a text: what is read and what is heard are the name.
  const letter = [...title.trim()][0]?.toUpperCase() ?? "·";
  return <span className="app-icon" aria-hidden data-letter={letter} style={{ "--hue": String(hue) } as CSSProperties} />;
}
