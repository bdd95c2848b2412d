// Pomodoro: a timer that agents start and stop for the person. The Runtime itself keeps the time (`deadline.*`), so
// the app has no handlers; its surface shows what the Runtime projects. `manifest.json` is built from this file.

import { defineAgentTools, defineApp } from "@lineloop/app-sdk";

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const MINUTES = { type: "integer", minimum: 1, maximum: 180 } as const;
const LABEL = { type: "string", minLength: 1, maxLength: 120 } as const;
const COUNT_MS = { type: "integer", minimum: 0 } as const;
const REASON = { type: "string", maxLength: 500 } as const;

const tools = defineAgentTools({
  "pomodoro.start": {
    title: "Start a focus timer (开始专注计时)",
    description:
      "Start a focus or meditation timer (a pomodoro) on the person's screen for a number of minutes, with an optional " +
      "label. The timer runs only once a `started` receipt arrives; say so only then. The result follows when the time " +
      "is up. 为用户开始一段专注、冥想或番茄钟计时：打开计时器并倒计时若干分钟。",
    input: {
      $schema: DIALECT,
      type: "object",
      properties: {
        minutes: {
          ...MINUTES,
          title: "Minutes (分钟)",
          description: "How long the timer runs, in minutes. 计时多少分钟。",
        },
        label: {
          ...LABEL,
          title: "Label (名称)",
          description:
            "What the time is for, in the person's words; for example what the focus is called. 这段时间的名称。",
        },
      },
      required: ["minutes"],
      additionalProperties: false,
    },
    output: {
      $schema: DIALECT,
      type: "object",
      properties: {
        outcome: { enum: ["completed", "interrupted", "not_started"] },
        minutes: MINUTES,
        label: LABEL,
        started_at: { type: "string" },
        ended_at: { type: "string" },
        duration_ms: { type: "integer", minimum: 1 },
        elapsed_ms: COUNT_MS,
        reason: REASON,
      },
      required: ["outcome"],
      additionalProperties: false,
    },
    callModel: "operation",
    delivery: "runtime",
    execution: {
      name: "deadline.start",
      durationFrom: { param: "minutes", unit: "minutes" },
      onLeave: "interrupt",
      outcomes: ["completed", "interrupted", "not_started"],
    },
    activation: "foreground_required",
    timeoutMs: 60_000,
  },
  "pomodoro.interrupt": {
    title: "Stop the focus timer (停止计时)",
    description:
      "Stop, interrupt, end or cancel the running focus, meditation or pomodoro timer of this conversation. Never opens " +
      "the app. 停止、结束、中断或取消正在进行的专注、冥想或番茄钟计时。",
    input: {
      $schema: DIALECT,
      type: "object",
      properties: {
        reason: {
          type: "string",
          minLength: 1,
          maxLength: 500,
          title: "Reason (原因)",
          description: "Why it is stopped, if the person said so. 停止的原因。",
        },
      },
      additionalProperties: false,
    },
    output: {
      $schema: DIALECT,
      type: "object",
      properties: {
        outcome: { enum: ["interrupted", "cancelled", "nothing_to_interrupt"] },
        elapsed_ms: COUNT_MS,
        reason: REASON,
      },
      required: ["outcome"],
      additionalProperties: false,
    },
    callModel: "command",
    delivery: "runtime",
    execution: { name: "deadline.interrupt", outcomes: ["interrupted", "cancelled", "nothing_to_interrupt"] },
    activation: "activation_not_required",
    timeoutMs: 10_000,
    autoLaunch: false,
  },
});

export default defineApp({
  appScope: "pomodoro",
  version: "1.0.0",
  title: "Pomodoro",
  features: {
    required: ["app.lifecycle.v1", "app.tools.v1"],
    optional: ["surface.state.v1", "app.session-data.v1"],
  },
  session: "per_launch",
  entrypoints: [{ id: "timer", kind: "contextual" }],
  tools,
  surface: { entry: "src/surface/main.ts" },
});
