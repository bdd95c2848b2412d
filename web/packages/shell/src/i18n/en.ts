// What the shell says, in English. This file decides which keys exist.

import { chat } from "../chat/strings.en.ts";

export const en = {
  ...chat,
  "app.name": "Lineloop",
} as const;
