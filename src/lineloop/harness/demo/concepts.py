"""What a text mentions: actions and things, as concepts of both languages.

A concept is a set of words that mean the same. Decides nothing about tools, and nothing about what is wanted.
"""

from __future__ import annotations

import re

from lineloop.harness.demo.durations import normalise
from lineloop.kit.records import record

# Actions: what one can do to something. Two actions are opposites when listed so.
_ACTIONS: dict[str, tuple[str, ...]] = {
    "start": ("start", "begin", "launch", "run", "resume", "go", "开始", "启动", "发起", "来一个", "来个"),
    "stop": (
        "stop",
        "end",
        "interrupt",
        "cancel",
        "finish",
        "quit",
        "abort",
        "halt",
        "terminate",
        "exit",
        "停止",
        "停下",
        "停",
        "结束",
        "中断",
        "取消",
        "终止",
        "退出",
        "不做了",
        "算了",
    ),
    "create": (
        "create",
        "add",
        "new",
        "make",
        "insert",
        "append",
        "write",
        "新建",
        "添加",
        "创建",
        "增加",
        "加上",
        "写",
    ),
    "remove": ("remove", "delete", "clear", "erase", "drop", "删除", "移除", "清空", "去掉"),
    "show": (
        "show",
        "list",
        "get",
        "read",
        "see",
        "view",
        "display",
        "fetch",
        "status",
        "query",
        "check",
        "显示",
        "列出",
        "查看",
        "看看",
        "查询",
        "读取",
        "状态",
    ),
    "change": (
        "change",
        "set",
        "update",
        "edit",
        "rename",
        "move",
        "modify",
        "修改",
        "设置",
        "更新",
        "改成",
        "移动",
    ),
    "complete": ("complete", "done", "tick", "完成", "做完"),
    "search": ("search", "find", "look", "lookup", "搜索", "查找", "找"),
    "send": ("send", "post", "share", "发送", "分享", "发给"),
    "open": ("open", "打开"),
    "close": ("close", "shut", "关闭", "关掉"),
    "count": ("count", "sum", "calculate", "compute", "计算", "统计"),
    "draw": ("draw", "paint", "sketch", "画", "绘制"),
}
OPPOSITES = {
    frozenset(pair)
    for pair in (
        ("start", "stop"), ("create", "remove"), ("open", "close"), ("start", "close"), ("open", "stop"),
        ("show", "start"), ("show", "stop"), ("show", "create"), ("show", "remove"),
    )
}  # fmt: skip

# Things: nouns that both languages share, and near-synonyms.
_THINGS: tuple[tuple[str, ...], ...] = (
    (
        "focus",
        "concentrate",
        "concentration",
        "meditate",
        "meditation",
        "pomodoro",
        "专注",
        "冥想",
        "打坐",
        "番茄",
        "番茄钟",
    ),
    ("timer", "countdown", "timing", "stopwatch", "alarm", "计时", "计时器", "倒计时", "定时"),
    ("todo", "task", "待办", "任务"),
    ("note", "memo", "笔记", "备忘"),
    ("list", "清单", "列表"),
    ("reminder", "remind", "提醒"),
    ("whiteboard", "board", "canvas", "白板", "画板"),
    ("picture", "image", "photo", "图片", "照片"),
    ("file", "document", "文件", "文档"),
    ("message", "消息", "信息"),
    ("question", "问题"),
    ("weather", "天气"),
    ("music", "song", "音乐", "歌"),
    ("date", "day", "日期"),
    ("number", "数字"),
)
NEGATIONS = (
    *("not", "never", "without", "dont", "cannot"),
    *("不要", "别", "不用", "没有", "请勿", "不想", "不能", "不必", "不会", "无需", "先不", "不打算"),
)
EMPTY_WORDS = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "to",
        "for",
        "me",
        "my",
        "mine",
        "i",
        "you",
        "your",
        "we",
        "our",
        "it",
        "its",
        "is",
        "are",
        "was",
        "be",
        "been",
        "am",
        "and",
        "or",
        "in",
        "on",
        "at",
        "by",
        "with",
        "from",
        "this",
        "that",
        "these",
        "those",
        "please",
        "now",
        "just",
        "can",
        "could",
        "would",
        "will",
        "shall",
        "do",
        "does",
        "did",
        "have",
        "has",
        "had",
        "what",
        "how",
        "why",
        "who",
        "when",
        "which",
        "there",
        "here",
        "so",
        "if",
        "then",
        "than",
        "as",
        "up",
        "down",
        "out",
        "about",
        "into",
        "over",
        "after",
        "before",
        "let",
        "us",
        "one",
        "some",
        "any",
        "all",
        "again",
        "hello",
        "hi",
        "hey",
        "thanks",
        "thank",
        "ok",
        "okay",
        "yes",
        "no",
        "called",
        "named",
        "titled",
        "name",
        "minutes",
        "minute",
        "seconds",
        "second",
        "hours",
        "hour",
        "app",
        "tool",
        "person",
        "user",
        "agent",
        "conversation",
        "running",
        "current",
        "used",
        "use",
        "uses",
        "when",
        "only",
    ]
)
LATIN = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
_HAN = re.compile(r"[\u4e00-\u9fff]+")
_EMPTY_HAN = frozenset(
    [
        "现在",
        "这次",
        "一个",
        "一下",
        "帮我",
        "请帮",
        "这个",
        "那个",
        "可以",
        "什么",
        "怎么",
        "你好",
        "您好",
        "谢谢",
        "我的",
        "你的",
        "分钟",
        "小时",
    ]
)


@record
class Words:
    """What a text mentions: action concepts in order, and things (concepts, stems, pairs of Chinese
    characters).
    """

    actions: tuple[str, ...]
    things: frozenset[str]


def stem(word: str) -> str:
    """A crude common form: `focuses`, `focusing`, `focused` meet."""
    word = word.lower()
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4 and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_ACTION_OF = {stem(word): name for name, words in _ACTIONS.items() for word in words if word.isascii()}
_HAN_ACTIONS = sorted(
    ((word, name) for name, words in _ACTIONS.items() for word in words if not word.isascii()),
    key=lambda pair: len(pair[0]),
    reverse=True,
)
_THING_OF = {stem(word): group[0] for group in _THINGS for word in group if word.isascii()}
_HAN_THINGS = [(word, group[0]) for group in _THINGS for word in group if not word.isascii()]


def is_action(word: str) -> bool:
    return stem(word) in _ACTION_OF


def is_negation(word: str) -> bool:
    """`not`, `never`, and whatever ends like `don't`."""
    return word in NEGATIONS or word.endswith("n't")


def han_actions(text: str) -> list[tuple[int, str]]:
    """The Chinese action words of a text by place, longest first where they overlap."""
    found: list[tuple[int, str]] = []
    for word, _ in _HAN_ACTIONS:
        place = text.find(word)
        if place >= 0:
            found.append((place, word))
            text = text.replace(word, "\0" * len(word))
    return sorted(found)


def words_of(text: str) -> Words:
    """The concepts of a text. A negated action ("don't stop") is not mentioned at all."""
    text = normalise(text)
    actions: list[tuple[int, str]] = []
    things: set[str] = set()
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]+", " ", text)
    before: list[str] = []
    for match in LATIN.finditer(spelled):
        word = match[0].lower()
        if (action := _ACTION_OF.get(stem(word))) and not any(map(is_negation, before[-2:])):
            actions.append((match.start(), action))
        if (thing := _THING_OF.get(stem(word))) is not None:
            things.add(thing)
        elif word not in EMPTY_WORDS and not action and len(word) > 2:
            things.add(stem(word))
        before.append(word)
    for match in _HAN.finditer(spelled):
        found_actions, found_things = _han_words(match[0])
        actions += [(match.start() + place, action) for place, action in found_actions]
        things |= found_things
    return Words(tuple(dict.fromkeys(action for _, action in sorted(actions))), frozenset(things))


def _han_words(run: str) -> tuple[list[tuple[int, str]], set[str]]:
    actions: list[tuple[int, str]] = []
    things = {concept for word, concept in _HAN_THINGS if word in run}
    covered = run
    for word, action in _HAN_ACTIONS:
        place = covered.find(word)
        if place < 0:
            continue
        if not covered[:place].endswith(NEGATIONS):
            actions.append((place, action))
        covered = covered.replace(word, "\0" * len(word))
    pairs = {covered[index : index + 2] for index in range(len(covered) - 1)}
    things |= {pair for pair in pairs if "\0" not in pair and pair not in _EMPTY_HAN}
    return actions, things
