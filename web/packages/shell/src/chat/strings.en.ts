// What the chat says, in English. Keys begin with `chat.`; see src/i18n/index.ts for what an entry may be.

export const chat = {} as const;
