import { defineConfig } from "vitest/config";

// A test that needs a document says so in its first line: `// @vitest-environment jsdom`.
// The bound is for hangs: a machine with much to do is slow and not wrong.
export default defineConfig({
  test: { include: ["{web/packages,apps}/*/tests/**/*.test.{ts,tsx}"], environment: "node", testTimeout: 20_000 },
});
