// JSON as the wire has it, and the few questions everybody asks of it.

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export type JsonObject = { readonly [name: string]: Json };

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function isWhole(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value);
}

/** The own field of an object; never one that it inherited. */
export function own(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
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
