// Titles in two languages at once.

import { describe, expect, it } from "vitest";
import { inLanguage } from "../../src/i18n/bilingual.ts";

describe("a title in two languages", () => {
  it.each([
    ["Stop the focus timer (停止计时)", "Stop the focus timer", "停止计时"],
    ["停止计时 (Stop the focus timer)", "Stop the focus timer", "停止计时"],
    ["Connect the VPN (连接 VPN)", "Connect the VPN", "连接 VPN"],
  ])("%s is shown in the person's language", (title, en, zh) => {
    expect(inLanguage(title, "en")).toBe(en);
    expect(inLanguage(title, "zh")).toBe(zh);
  });

  it.each([
    "Stop the focus timer",
    "停止计时",
    "Export (PDF)",
    "导出 (表格)",
    "Stop（停止）",
    "Stop(停止)",
    "Stop (停止) now",
    "Stop (停止) (停)",
    "Stop ((停止))",
    "123 (停止)",
    "Stop ()",
    "(停止)",
    "",
  ])("“%s” is none and stays whole", (title) => {
    expect(inLanguage(title, "en")).toBe(title);
    expect(inLanguage(title, "zh")).toBe(title);
  });
});
