// How the shell becomes files that the Runtime serves under a strict policy: no inline script or style, nothing
// that needs eval, every file named by its content, the worker a file of its own.

import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const STATIC = fileURLToPath(new URL("../../../src/lineloop/device/host/web/static", import.meta.url));

export default defineConfig({
  root: fileURLToPath(new URL(".", import.meta.url)),
  base: "/",
  publicDir: fileURLToPath(new URL("public", import.meta.url)),
  plugins: [react()],
  build: {
    outDir: STATIC,
    emptyOutDir: true,
    assetsDir: "assets",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: true,
  },
  worker: { format: "es" },
});
