// Behaves.
import "./well-behaved.js";
