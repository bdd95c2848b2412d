// The chat alone, with made-up conversations: to look at it and to measure it. `vite build -c dev/vite.config.ts`.

import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const here = fileURLToPath(new URL(".", import.meta.url));

export default defineConfig({
  root: here,
  base: "./",
  plugins: [react()],
  build: { outDir: `${here}../../../../node_modules/.cache/lineloop/chat-dev`, emptyOutDir: true, rolldownOptions: { input: `${here}stream.html` } },
});
