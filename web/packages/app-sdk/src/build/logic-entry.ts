// Gives the app's handlers to the logic container, whose SDK names `defineAgentTools`.

import type { AppDeclaration } from "../declare.ts";
import { toolsOf } from "./describe.ts";

type Define = (tools: Record<string, { handler: unknown; contractVersion: string }>) => void;

export function serve(app: AppDeclaration): void {
  const { defineAgentTools } = globalThis as unknown as { defineAgentTools: Define };
  for (const { method, contractVersion, handler } of toolsOf(app)) {
    if (handler !== undefined) defineAgentTools({ [method]: { handler, contractVersion } });
  }
}
