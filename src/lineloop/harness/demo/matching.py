"""Chooses a tool by matching the words of a text against names, titles, descriptions and schema.

Decides by scores over concepts; a concept is a set of words of both languages that mean the same. It knows
no tool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lineloop.harness.adapters.port import ToolSpec
from lineloop.harness.demo.arguments import Filled, duration_unit_ms, fill_arguments
from lineloop.harness.demo.durations import find_durations, normalise
from lineloop.kit.records import record

THRESHOLD = 4.0
_ACTION_IN_NAME, _ACTION_IN_DESCRIPTION, _OPPOSITE = 4.0, 1.5, -5.0
_THING_IN_NAME, _THING_IN_DESCRIPTION = 2.0, 1.0
_DURATION_FITS, _REQUIRED_MISSING = 2.0, -0.5

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
_OPPOSITES = {
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
_NEGATIONS = ("don't", "dont", "not", "never", "without", "不要", "别", "不用", "没有", "请勿")
_EMPTY_WORDS = frozenset(
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
_LATIN = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
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


@record
class Choice:
    """The tool that fits best, what could be filled from the text, and the score that chose it."""

    tool: ToolSpec
    filled: Filled
    score: float


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


def words_of(text: str) -> Words:
    """The concepts of a text. A negated action ("don't stop") is not mentioned at all."""
    text = normalise(text)
    actions: list[tuple[int, str]] = []
    things: set[str] = set()
    spelled = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]+", " ", text)
    before: list[str] = []
    for match in _LATIN.finditer(spelled):
        word = match[0].lower()
        if (action := _ACTION_OF.get(stem(word))) and not any(past in _NEGATIONS for past in before[-2:]):
            actions.append((match.start(), action))
        if (thing := _THING_OF.get(stem(word))) is not None:
            things.add(thing)
        elif word not in _EMPTY_WORDS and not action and len(word) > 2:
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
        if not covered[:place].endswith(_NEGATIONS):
            actions.append((place, action))
        covered = covered.replace(word, "\0" * len(word))
    pairs = {covered[index : index + 2] for index in range(len(covered) - 1)}
    things |= {pair for pair in pairs if "\0" not in pair and pair not in _EMPTY_HAN}
    return actions, things


def choose_tool(text: str, tools: Sequence[ToolSpec]) -> Choice | None:
    """The tool whose words fit best, or None when nothing fits well enough. Ties go to the earlier tool."""
    best: Choice | None = None
    for tool in tools:
        if tool.is_human:
            continue
        filled = fill_arguments(tool.input_schema, text)
        score = score_tool(words_of(filled.rest), text, tool, filled)
        if score >= THRESHOLD and (best is None or score > best.score):
            best = Choice(tool, filled, score)
    return best


def score_tool(said: Words, text: str, tool: ToolSpec, filled: Filled) -> float:
    """How well the words fit the tool; THRESHOLD and more is a fit."""
    named = words_of(f"{tool.method} {tool.title}")
    described = words_of(f"{tool.description} {tool.app_title} {_schema_words(tool)}")
    score = 0.0
    if any(action in named.actions for action in said.actions):
        score += _ACTION_IN_NAME
    elif any(action in described.actions for action in said.actions):
        score += _ACTION_IN_DESCRIPTION
    if said.actions and named.actions and frozenset((said.actions[0], named.actions[0])) in _OPPOSITES:
        score += _OPPOSITE
    app_words = words_of(tool.app_scope).things
    for thing in said.things:
        if thing in named.things or thing in app_words:
            score += _THING_IN_NAME
        elif thing in described.things:
            score += _THING_IN_DESCRIPTION
    properties = _properties(tool)
    if find_durations(text) and any(duration_unit_ms(name, schema) for name, schema in properties.items()):
        score += _DURATION_FITS
    return score + _REQUIRED_MISSING * sum(1 for reason in filled.missing.values() if not reason)


def _properties(tool: ToolSpec) -> dict[str, dict[str, object]]:
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _schema_words(tool: ToolSpec) -> str:
    parts: list[str] = []
    for name, schema in _properties(tool).items():
        parts += [name, str(schema.get("title", "")), str(schema.get("description", ""))]
        values = schema.get("enum")
        parts += [str(value) for value in values] if isinstance(values, list) else []
    return " ".join(parts)
