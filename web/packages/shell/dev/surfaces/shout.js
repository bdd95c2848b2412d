// Behaves, and then floods the window around it.
import "./well-behaved.js";

setTimeout(() => { for (let n = 0; n < 20000; n += 1) parent.postMessage({ n }, "*"); }, 1200);
