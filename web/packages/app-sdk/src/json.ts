// JSON as the wire has it, and the few questions the SDK asks of it.

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [name: string]: Json };

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether objects and lists nest more than `limit` levels; a scalar has depth 0. Never recurses. */
export function isDeeperThan(value: unknown, limit: number): boolean {
  let depth = 0;
  let level: unknown[] = [value];
  for (;;) {
    const containers = level.filter((item) => typeof item === "object" && item !== null);
    if (containers.length === 0) return false;
    depth += 1;
    if (depth > limit) return true;
    level = containers.flatMap((item) => Object.values(item as object));
  }
}
