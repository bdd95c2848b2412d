// Behaves, and then computes for a minute.
import "./well-behaved.js";

setTimeout(() => { const end = Date.now() + 60000; while (Date.now() < end); }, 1500);
