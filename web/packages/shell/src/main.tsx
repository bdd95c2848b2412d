import "./styles/tokens.css";
import "./styles/page.css";
import "./styles/frame.css";
import "./styles/phone.css";
import "./styles/dialogs.css";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { makeParts } from "./parts.ts";
import { startPreferences } from "./runtime/preferences.ts";
import { Shell } from "./shell.tsx";
import "./styles/print.css";

startPreferences(window);
const parts = makeParts(window);
parts.guard.start();
parts.client.start();

const root = document.getElementById("root");
if (root !== null) {
  createRoot(root).render(
    <StrictMode>
      <Shell parts={parts} />
    </StrictMode>,
  );
}
