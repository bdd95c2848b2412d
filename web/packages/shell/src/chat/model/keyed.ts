// Values outside React, each with its own listeners: one message changes, one component renders.

import { useCallback, useSyncExternalStore } from "react";

export class Keyed<T> {
  readonly #values = new Map<string, T>();
  readonly #listeners = new Map<string, Set<() => void>>();

  get(key: string): T | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: T | undefined): void {
    if (Object.is(this.#values.get(key), value)) return;
    if (value === undefined) this.#values.delete(key);
    else this.#values.set(key, value);
    for (const listener of [...(this.#listeners.get(key) ?? [])]) listener();
  }

  keys(): readonly string[] {
    return [...this.#values.keys()];
  }

  subscribe(key: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(key) ?? new Set();
    this.#listeners.set(key, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(key) === listeners) this.#listeners.delete(key);
    };
  }
}

export function useKeyed<T>(store: Keyed<T>, key: string): T | undefined {
  const subscribe = useCallback((listener: () => void) => store.subscribe(key, listener), [store, key]);
  const read = useCallback(() => store.get(key), [store, key]);
  return useSyncExternalStore(subscribe, read, read);
}
