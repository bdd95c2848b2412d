// The shell's end of a gate worker. A worker's address is a place where scripts come from, so the page's policy
// wants it made by a named hand: this one lets through the gate's own file and nothing else.

import address from "./gate-worker.ts?worker&url";
import type { FromGate, ToGate } from "./gate.ts";

export interface GateLink {
  post(message: ToGate, transfer?: Transferable[]): void;
  onMessage(listener: (message: FromGate) => void): void;
  /** Ends it at once, with whatever it still had to say. */
  end(): void;
}

interface ScriptPolicy {
  createScriptURL(url: string): string;
}

interface PolicyFactory {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): ScriptPolicy;
}

let policy: ScriptPolicy | null = null;

function workerPolicy(): ScriptPolicy {
  const rules = {
    createScriptURL(url: string): string {
      if (url !== address) throw new TypeError("not a script of the shell");
      return url;
    },
  };
  const factory = (globalThis as { trustedTypes?: PolicyFactory }).trustedTypes;
  policy ??= factory?.createPolicy("lineloop-worker", rules) ?? rules;
  return policy;
}

export function openGate(): GateLink {
  const worker = new Worker(workerPolicy().createScriptURL(address), { type: "module", name: "app-port" });
  return {
    post: (message, transfer = []) => worker.postMessage(message, transfer),
    onMessage: (listener) => {
      worker.onmessage = (event: MessageEvent<FromGate>) => listener(event.data);
    },
    end: () => worker.terminate(),
  };
}
