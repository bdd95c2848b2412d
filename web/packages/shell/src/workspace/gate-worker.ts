// The worker that reads one app's port, so that whatever the app sends never holds up the shell.

import { Gate, PING_EVERY_MS, type FromGate, type ToGate } from "./gate.ts";

const BATCH_EVERY_MS = 8;

declare const self: DedicatedWorkerGlobalScope;

let gate: Gate | null = null;

function open(port: MessagePort): Gate {
  const opened = new Gate({
    now: () => performance.now(),
    post: (text) => port.postMessage(text),
    tell: (message: FromGate) => self.postMessage(message),
  });
  let due = false;
  port.onmessage = (event: MessageEvent<unknown>) => {
    if (!opened.receive(event.data)) {
      port.onmessage = null;
      port.close();
      return;
    }
    if (due) return;
    due = true;
    setTimeout(() => {
      due = false;
      opened.flush();
    }, BATCH_EVERY_MS);
  };
  port.onmessageerror = () => void opened.receive(null);
  port.addEventListener("close", () => self.postMessage({ kind: "closed" } satisfies FromGate));
  setInterval(() => opened.tick(), PING_EVERY_MS);
  return opened;
}

self.onmessage = (event: MessageEvent<ToGate>) => {
  const message = event.data;
  if (message.kind === "port") {
    const port = event.ports[0];
    if (port !== undefined) gate ??= open(port);
  } else if (message.kind === "send") gate?.send(message.text);
  else gate?.watch(message.watching);
};
