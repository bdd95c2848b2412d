// What is said in the made-up conversations.

export interface SceneWords {
  readonly conversations: readonly string[];
  readonly assistant: string;
  readonly research: string;
  readonly garden: string;
  readonly ask_report: string;
  readonly report: string;
  readonly ask_code: string;
  readonly code: string;
  readonly ask_tea: string;
  readonly tea: string;
  readonly ask_plan: string;
  readonly thinking: string;
  readonly label: string;
  readonly search: string;
  readonly pomodoro: string;
  readonly pomodoro_title: string;
  readonly notes: string;
  readonly note_title: string;
  readonly question: string;
  readonly choices: readonly string[];
  readonly confirm: string;
  readonly confirm_choices: readonly string[];
  readonly failed: string;
}

const CODE_EN = `The slow part is the lookup inside the loop. Build the index once:

\`\`\`python
# One pass over the orders, one lookup per customer.
by_customer = defaultdict(list)
for order in orders:
    by_customer[order.customer_id].append(order)

totals = {key: sum(o.amount for o in own) for key, own in by_customer.items()}
print(f"{len(totals)} customers, largest {max(totals.values()):.2f}")
\`\`\`

That is **O(n + m)** instead of \`O(n · m)\`. The [profile module](https://docs.python.org/3/library/profile.html) shows the difference.`;

const CODE_ZH = `慢在循环里的查找。先把索引建好：

\`\`\`python
# 订单只走一遍，每位客户查一次。
by_customer = defaultdict(list)
for order in orders:
    by_customer[order.customer_id].append(order)

totals = {key: sum(o.amount for o in own) for key, own in by_customer.items()}
print(f"{len(totals)} 位客户，最大 {max(totals.values()):.2f}")
\`\`\`

这样是 **O(n + m)**，而不是 \`O(n · m)\`。用 [profile 模块](https://docs.python.org/3/library/profile.html) 可以看到差别。`;

export const WORDS: Readonly<Record<"en" | "zh", SceneWords>> = {
  en: {
    conversations: [
      "Quarterly report",
      "Seedlings for the balcony",
      "Trip to Hangzhou in April",
      "Why is the import slow?",
      "写给房东的信",
      "Reading list",
    ],
    assistant: "Assistant",
    research: "Research",
    garden: "Garden",
    ask_report: "What is still missing in the quarterly report?",
    report: `Two things are open before it can go out:

1. **Regional figures.** The north has not sent theirs; last quarter they came on the 4th.
2. **The chart on page 6** still shows the old exchange rate.

| Region | Q2 | Q3 | Change |
| --- | ---: | ---: | ---: |
| North | 412 | — | — |
| South | 380 | 431 | +13 % |
| West | 297 | 305 | +3 % |

> The board asked for one page. I would move the method into an appendix.`,
    ask_code: "Totals per customer take a minute for 20,000 orders. Can that be quicker?",
    code: CODE_EN,
    ask_tea: "Good. Start a pomodoro for 25 minutes, I will write the summary now.",
    tea: "The pomodoro runs: 25 minutes for “summary”. Say stop whenever you want to end it.",
    ask_plan: "Meanwhile, note down who still owes us figures.",
    thinking: "I am looking through your notes for the regions that have not answered yet.",
    label: "summary",
    search: "Search notes",
    pomodoro: "Pomodoro",
    pomodoro_title: "Start a pomodoro",
    notes: "Notes",
    note_title: "Write a note",
    question: "Which day shall I book the room for?",
    choices: ["Tuesday, 10 March", "Thursday, 12 March", "Friday, 13 March"],
    confirm: "Send the draft to all twelve recipients now?",
    confirm_choices: ["Send it", "Not yet"],
    failed: "The model did not answer within two minutes.",
  },
  zh: {
    conversations: ["季度报告", "阳台上的幼苗", "四月去杭州", "导入为什么这么慢？", "A letter to the landlord", "书单"],
    assistant: "助手",
    research: "调研",
    garden: "园艺",
    ask_report: "季度报告还缺什么？",
    report: `发出之前还有两件事：

1. **各区数据。** 北区还没有交；上一季度是 4 号交的。
2. **第 6 页的图表** 用的还是旧汇率。

| 区域 | 二季度 | 三季度 | 变化 |
| --- | ---: | ---: | ---: |
| 北区 | 412 | — | — |
| 南区 | 380 | 431 | +13 % |
| 西区 | 297 | 305 | +3 % |

> 董事会只要一页。我建议把方法部分移到附录。`,
    ask_code: "两万笔订单，按客户汇总要一分钟。能快一点吗？",
    code: CODE_ZH,
    ask_tea: "好。开始一个 25 分钟的番茄钟，我现在写摘要。",
    tea: "番茄钟已经开始：25 分钟，“摘要”。想结束时说一声停止就行。",
    ask_plan: "另外，把还没交数据的区记下来。",
    thinking: "我正在你的笔记里查找还没有回复的区。",
    label: "摘要",
    search: "搜索笔记",
    pomodoro: "番茄钟",
    pomodoro_title: "开始番茄钟",
    notes: "笔记",
    note_title: "写一条笔记",
    question: "会议室订在哪一天？",
    choices: ["3 月 10 日，星期二", "3 月 12 日，星期四", "3 月 13 日，星期五"],
    confirm: "现在把草稿发给全部十二位收件人吗？",
    confirm_choices: ["发送", "先不发"],
    failed: "模型在两分钟内没有回答。",
  },
};
