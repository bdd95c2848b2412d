#!/usr/bin/env node
// lineloop-app-build DIR…: builds the apps in these folders. The SDK is TypeScript, which vite's runner loads.

import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const folders = process.argv.slice(2);
if (folders.length === 0 || folders.some((folder) => folder.startsWith("-"))) {
  console.error("usage: lineloop-app-build DIR…");
  process.exit(2);
}

const source = fileURLToPath(new URL("../src/build/index.ts", import.meta.url));
const { module } = await runnerImport(source, { configFile: false, logLevel: "warn" });
for (const folder of folders) {
  try {
    const { manifest, files } = await module.buildApp(folder);
    const size = [...files.values()].reduce((sum, bytes) => sum + bytes.length, 0);
    console.log(`${manifest.app_scope} ${manifest.version}: ${files.size} files, ${size} bytes`);
  } catch (error) {
    if (!(error instanceof module.BuildFailed)) throw error;
    console.error(`${folder} cannot be built:`);
    for (const { pointer, message } of error.problems) console.error(`  ${pointer}: ${message}`);
    process.exitCode = 1;
  }
}
