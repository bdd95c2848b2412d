import { defineConfig } from "vitest/config";

// A test that needs a document says so in its first line: `// @vitest-environment jsdom`.
export default defineConfig({
  test: { include: ["{web/packages,apps}/*/tests/**/*.test.{ts,tsx}"], environment: "node" },
});
