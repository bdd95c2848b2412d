// Behaves, and shows a note.
import "./well-behaved.js";

document.querySelector(".clock").textContent = "note";
