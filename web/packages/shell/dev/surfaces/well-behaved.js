// What every surface here does: one handshake, answers to pings, a clock and a field. `globalThis.port` is its port.
const root = document.documentElement;
const nonce = root.dataset.lineloopNonce;
globalThis.keys = [];
addEventListener("message", (event) => {
  if (event.source !== parent || event.origin !== root.dataset.lineloopShell) return;
  const port = event.ports[0];
  globalThis.port = port;
  port.onmessage = ({ data }) => {
    const ping = /"type":"ping","payload":(\{"number":\d+\})/.exec(data);
    if (ping) port.postMessage(`{"v":1,"type":"pong","payload":${ping[1]}}`);
  };
  port.postMessage(JSON.stringify({ v: 1, id: "r/1", type: "hello", payload: { sdk: "mock", nonce } }));
});
parent.postMessage({ lineloop: 1, nonce }, root.dataset.lineloopShell);
const clock = document.createElement("div");
clock.className = "clock";
clock.textContent = "24:37";
const field = document.createElement("input");
field.placeholder = "What are you working on?";
addEventListener("keydown", (event) => globalThis.keys.push(event.key));
document.getElementById("root").replaceWith(clock, field);
