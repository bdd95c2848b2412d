import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { include: ["web/packages/*/tests/**/*.test.ts"], environment: "node" },
});
