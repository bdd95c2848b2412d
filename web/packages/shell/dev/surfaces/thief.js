// Behaves, and then takes the focus again and again.
import "./well-behaved.js";

setInterval(() => { window.focus(); document.querySelector("input").focus(); }, 50);
