// Behaves, and then leaves its frame.
import "./well-behaved.js";

setTimeout(() => { location.href = "http://127.0.0.1:9/?secret"; }, 1200);
