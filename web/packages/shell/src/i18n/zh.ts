// What the shell says, in Chinese.

import { chat } from "../chat/strings.zh.ts";
import type { en } from "./en.ts";
import type { Translation } from "./text.ts";

export const zh: Translation<typeof en> = {
  ...chat,
  "app.name": "Lineloop",
};
