// The hostile app as it is installed: it shakes hands like any app, keeps the raw port, then misbehaves when
// told to.
import "./main.js";

const { lineloopNonce: nonce, lineloopShell: shell } = document.documentElement.dataset;
globalThis.received = [];
globalThis.handshakes = 0;

addEventListener("message", (event) => {
  if (event.source !== parent || event.data?.nonce !== nonce || !event.ports[0]) return;
  globalThis.handshakes += 1;
  globalThis.port ??= event.ports[0];
  globalThis.port.onmessage = (message) => {
    const ping = /"type":"ping","payload":\{"number":(\d+)/.exec(message.data);
    if (ping === null) globalThis.received.push(message.data);
    else globalThis.port.postMessage(`{"v":1,"type":"pong","payload":{"number":${ping[1]}}}`);
  };
  document.documentElement.dataset.connected = "yes";
  globalThis.send({ v: 1, id: "hello", type: "hello", payload: { sdk: "hostile/1", nonce } });
});

globalThis.shake_hands = () => parent.postMessage({ lineloop: 1, nonce }, shell);
globalThis.send = (frame) => globalThis.port.postMessage(JSON.stringify(frame));
globalThis.send_raw = (value) => globalThis.port.postMessage(value);
globalThis.send_many = (count, frame) => {
  const text = JSON.stringify(frame);
  for (let i = 0; i < count; i += 1) globalThis.port.postMessage(text);
};
globalThis.answer_to = (id) => globalThis.received.map((text) => JSON.parse(text)).find((f) => f.reply_to === id);
globalThis.shake_hands();
