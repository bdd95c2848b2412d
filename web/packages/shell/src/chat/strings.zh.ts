// What the chat says, in Chinese. The same keys as strings.en.ts.

export const chat = {} as const;
