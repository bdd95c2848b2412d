// Behaves, and then floods its port.
import "./well-behaved.js";

setTimeout(() => { for (let n = 0; n < 200000; n += 1) globalThis.port.postMessage(`{"v":1,"type":"diagnostics.log","payload":{}}`); }, 1200);
