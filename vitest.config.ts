import { defineConfig } from "vitest/config";

// A test that needs a document says so in its first line: `// @vitest-environment jsdom`.
// The bound is for hangs: a machine with much to do is slow and not wrong. Files share a process: one each takes half of
// all the time.
export default defineConfig({
  test: {
    include: ["{web/packages,apps}/*/tests/**/*.test.{ts,tsx}"],
    environment: "node",
    testTimeout: 20_000,
    isolate: false,
  },
});
