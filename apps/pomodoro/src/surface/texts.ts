// Every word of the timer, in the two languages that the Runtime speaks.

import type { Language } from "@lineloop/app-sdk";

export interface Texts {
  readonly title: string;
  readonly connecting: string;
  readonly lost: string;
  readonly emptyTitle: string;
  readonly emptyHint: string;
  readonly starting: string;
  readonly remaining: string;
  readonly completed: string;
  readonly interrupted: string;
  readonly ended: string;
  readonly stopHint: string;
  until(time: string): string;
  started(length: string, label: string | null): string;
  left(length: string): string;
  completedAfter(length: string): string;
  interruptedAfter(length: string): string;
  /** Whole minutes when there are any, otherwise seconds. */
  length(milliseconds: number): string;
}

const plural = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`;

function whole(milliseconds: number): { readonly minutes: number; readonly seconds: number } {
  const seconds = Math.round(milliseconds / 1000);
  return { minutes: Math.floor(seconds / 60), seconds: seconds % 60 };
}

const en: Texts = {
  title: "Pomodoro",
  connecting: "Connecting…",
  lost: "The timer cannot reach Lineloop. It goes on by itself; close and open it to see it again.",
  emptyTitle: "No timer is running",
  emptyHint: "Ask for one in the chat: “Focus on reading for 25 minutes.”",
  starting: "Getting ready…",
  remaining: "Time left",
  completed: "Done",
  interrupted: "Stopped",
  ended: "Ended",
  stopHint: "Say “stop” in the chat to end it early.",
  until: (time) => `until ${time}`,
  started: (length, label) => (label === null ? `The timer runs: ${length}.` : `The timer runs: ${length}, ${label}.`),
  left: (length) => `${length} left.`,
  completedAfter: (length) => `${length} of focus`,
  interruptedAfter: (length) => `after ${length}`,
  length: (milliseconds) => {
    const { minutes, seconds } = whole(milliseconds);
    return minutes > 0 ? plural(minutes, "minute") : plural(seconds, "second");
  },
};

const zh: Texts = {
  title: "番茄钟",
  connecting: "正在连接…",
  lost: "计时器暂时连不上 Lineloop。计时仍在继续；关闭后重新打开即可看到。",
  emptyTitle: "还没有计时",
  emptyHint: "在聊天里说一句：“专注阅读 25 分钟。”",
  starting: "正在准备…",
  remaining: "剩余时间",
  completed: "完成",
  interrupted: "已停止",
  ended: "已结束",
  stopHint: "想提前结束，在聊天里说“停止”。",
  until: (time) => `到 ${time}`,
  started: (length, label) => (label === null ? `计时开始：${length}。` : `计时开始：${length}，${label}。`),
  left: (length) => `还剩 ${length}。`,
  completedAfter: (length) => `专注了 ${length}`,
  interruptedAfter: (length) => `进行了 ${length}`,
  length: (milliseconds) => {
    const { minutes, seconds } = whole(milliseconds);
    return minutes > 0 ? `${minutes} 分钟` : `${seconds} 秒`;
  },
};

export function textsOf(language: Language): Texts {
  return language === "zh" ? zh : en;
}
