// What an entry of a language file is: a string with {names}, or a function when it needs plural or time forms.

/** Words and numbers of one language. */
export interface Forms {
  /** Picks by the plural rule of the language; `other` is always there. */
  plural(count: number, forms: { readonly one?: string; readonly other: string }): string;
  number(value: number): string;
  /** "5 minutes ago"; both are epoch milliseconds. */
  ago(then: number, now: number): string;
  /** How long, "25 min", "1 hr 5 min", "40 sec"; the two largest units. */
  duration(milliseconds: number): string;
  /** The time of day, "14:05". */
  time(at: number): string;
  /** A day: "today", "yesterday", or a date. */
  day(at: number, now: number): string;
}

export type Values = Readonly<Record<string, string | number>>;
export type Entry = string | ((forms: Forms, values: never) => string);
export type Entries = Readonly<Record<string, Entry>>;

/** The names in braces of a string. */
type Names<S extends string> = S extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never;

/** What must be given to fill an entry in. */
export type Fill<E> = E extends (forms: Forms, values: infer V) => string
  ? V
  : E extends string
    ? [Names<E>] extends [never]
      ? undefined
      : { readonly [N in Names<E>]: string | number }
    : never;

/** The other languages: the same keys, and functions that take what the English ones take. */
export type Translation<T extends Entries> = {
  readonly [K in keyof T]: T[K] extends (forms: Forms, values: infer V) => string
    ? string | ((forms: Forms, values: V) => string)
    : string;
};

export function fill(template: string, values: Values): string {
  return template.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
