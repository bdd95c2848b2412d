// What is said aloud to people who do not see it: one region of the page, the newest text.

import { Store } from "./store.ts";

/** `number` makes the same text, said twice, two announcements. */
export const announcement = new Store<{ readonly text: string; readonly number: number }>({ text: "", number: 0 });

export function announce(text: string): void {
  announcement.update((last) => ({ text, number: last.number + 1 }));
}
