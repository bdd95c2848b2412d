"""The demo's words, in the language of the question. Decides phrasing only, from facts it is given.

A running timer is spoken of only from a `started` outcome; a receipt before it says that something is being
prepared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lineloop.harness.adapters.port import ToolOutcome, ToolResult, ToolSpec
from lineloop.harness.demo.spoken_time import MS_PER_HOUR, MS_PER_MINUTE, MS_PER_SECOND, spoken

DEMO_LABEL = "demo, not AI"
_HAN = re.compile(r"[\u4e00-\u9fff]")
_BILINGUAL = re.compile(r"^(?P<first>.*?)\s*[(（](?P<second>[^()（）]+)[)）]\s*$")
_DURATION_UNITS = {
    "_ms": 1,
    "_seconds": MS_PER_SECOND,
    "_minutes": MS_PER_MINUTE,
    "_hours": MS_PER_HOUR,
    "seconds": MS_PER_SECOND,
    "minutes": MS_PER_MINUTE,
    "hours": MS_PER_HOUR,
}
_LABEL_FIELDS = ("label", "name", "title", "topic")
_CHINESE_OUTCOMES = {
    "completed": "已经完成",
    "interrupted": "已经停下",
    "cancelled": "已经取消",
    "not_started": "没有开始",
    "nothing_to_interrupt": "现在没有可以停下的",
    "failed": "失败了",
    "expired": "已经过期",
}
_ENGLISH_OUTCOMES = {
    "completed": "completed",
    "interrupted": "stopped",
    "cancelled": "cancelled",
    "not_started": "did not start",
    "nothing_to_interrupt": "there is nothing to stop right now",
}
_CHINESE_REASONS = {
    "already_active": "已经有一个在进行了",
    "cancelled": "已被取消",
    "interrupted": "已被停下",
    "foreground_required": "屏幕没有切到前台",
    "person_left": "你离开了",
    "left": "你离开了",
    "deadline": "等待时间到了",
    "no_container": "没有可以运行它的地方",
    "interrupted_by_agent": "由助手停下",
    "cancelled_by_agent": "由助手取消",
}
_ENGLISH_REASONS = {
    "interrupted_by_agent": "stopped by the assistant",
    "cancelled_by_agent": "cancelled by the assistant",
}
_LATIN_BESIDE_HAN = re.compile(r"(?<=[A-Za-z0-9])(?=[\u4e00-\u9fff])|(?<=[\u4e00-\u9fff])(?=[A-Za-z0-9])")

_COMMANDS = "\n".join(
    (
        "/help",
        "/echo TEXT",
        "/slow N",
        "/json {…}",
        "/fail [REASON]",
        "/ask QUESTION|A|B",
        "/confirm TEXT",
        "/tool APP.METHOD {…}",
    )
)


def _spaced(text: str) -> str:
    """Chinese with a space where Latin letters meet it, as it is printed."""
    return _LATIN_BESIDE_HAN.sub(" ", text)


def is_chinese(text: str) -> bool:
    """Whether an answer should be Chinese: the question has a Chinese character."""
    return bool(_HAN.search(text))


def in_language(text: str, *, chinese: bool) -> str:
    """The half of a bilingual title `English (中文)` that fits; other titles unchanged."""
    match = _BILINGUAL.match(text)
    if match is None or is_chinese(match["first"]) == is_chinese(match["second"]):
        return text
    return match["first"] if is_chinese(match["first"]) == chinese else match["second"]


def signature(*, chinese: bool, first: bool) -> str:
    """The line that says what is speaking; longer the first time in a conversation."""
    if chinese:
        detail = "：我只按字词匹配设备上的工具" if first else ""
        return f"— 演示程序，不是 AI（{DEMO_LABEL}）{detail}"
    return f"— {DEMO_LABEL}" + (": I match your words to the tools on your device" if first else "")


def tool_title(tool: ToolSpec, *, chinese: bool) -> str:
    return in_language(tool.title or tool.method or tool.name, chinese=chinese)


def app_title(tool: ToolSpec, *, chinese: bool) -> str:
    return in_language(tool.app_title or tool.app_scope, chinese=chinese)


def greeting(tools: Sequence[ToolSpec], *, chinese: bool) -> str:
    titles = [tool_title(tool, chinese=chinese) for tool in tools if not tool.is_human]
    if chinese:
        return "你好！" + (f"我可以帮你：{'；'.join(titles)}。" if titles else "现在没有我能用的工具。")
    if not titles:
        return "Hello! There are no tools that I can use right now."
    return f"Hello! On your device I can: {'; '.join(titles)}."


def no_tool_fits(text: str, tools: Sequence[ToolSpec], *, chinese: bool) -> str:
    titles = [tool_title(tool, chinese=chinese) for tool in tools if not tool.is_human]
    shown = text if len(text) <= 120 else text[:117] + "…"
    if chinese:
        offer = f"我可以：{'；'.join(titles)}。" if titles else "现在没有我能用的工具。"
        return f"我没有找到适合“{shown}”的工具。{offer}"
    offer = f"I can: {'; '.join(titles)}." if titles else "There are no tools that I can use right now."
    return f'I found no tool that fits "{shown}". {offer}'


def help_text(*, chinese: bool) -> str:
    return ("可用的命令：\n" if chinese else "Commands:\n") + _COMMANDS


def question_for(tool: ToolSpec, name: str, schema: Mapping[str, Any], reason: str, *, chinese: bool) -> str:
    """Asks for one parameter, in the schema's own terms."""
    asked = in_language(str(schema.get("title") or name.replace("_", " ")), chinese=chinese)
    low, high = schema.get("minimum"), schema.get("maximum")
    title = tool_title(tool, chinese=chinese)
    if chinese:
        span = f"（{low} 到 {high}）" if low is not None and high is not None else ""
        why = "给出的值不合适。" if reason else ""
        return f"{title}：{why}{asked}{span}是多少？" if span else f"{title}：{why}{asked}是什么？"
    span = f" ({low} to {high})" if low is not None and high is not None else ""
    why = f"That does not work: {reason}. " if reason else ""
    return f"{title}: {why}{'What' if why else 'what'} should {asked.lower()}{span} be?"


def preparing(tool: ToolSpec, stage: str, *, chinese: bool) -> str | None:
    """Words for a receipt before anything has begun; None when there is nothing worth saying."""
    app = app_title(tool, chinese=chinese)
    if stage == "starting":
        return _spaced(f"正在准备{app}……") if chinese else f"Getting {app} ready…"
    if stage == "activation_ready":
        return _spaced(f"{app}已就绪。") if chinese else f"{app} is ready."
    return None


def tell_result(tool: ToolSpec, arguments: Mapping[str, Any], result: ToolResult, *, chinese: bool) -> str:
    """One or two sentences about how a call came back."""
    if result.outcome is ToolOutcome.STARTED:
        return tell_started(tool, arguments, result.content, chinese=chinese)
    if result.outcome is ToolOutcome.RESULT:
        return tell_outcome(tool_title(tool, chinese=chinese), arguments, result.content, chinese=chinese)
    title = tool_title(tool, chinese=chinese)
    code = str(result.content.get("code", "failed"))
    message = str(result.content.get("message") or code.replace("_", " "))
    if result.outcome is ToolOutcome.CANCELLED:
        return f"{title}：已取消。" if chinese else f"{title}: cancelled."
    return (
        f"{title}：没有做成（{code}）：{message}" if chinese else f"{title} did not work ({code}): {message}"
    )


def tell_started(
    tool: ToolSpec, arguments: Mapping[str, Any], facts: Mapping[str, Any], *, chinese: bool
) -> str:
    """The operation runs: said only here. Its length comes from the receipt; clocks differ, so no time of
    day.
    """
    app = app_title(tool, chinese=chinese)
    label = _label(arguments)
    length = _first_duration(facts, ("duration_ms", "remaining_ms")) or _first_duration(arguments, None)
    if chinese:
        text = f"已经开始：{app}" + (f"“{label}”" if label else "")
        return text + (f"，{spoken(length, chinese=True)}" if length else "") + "，正在计时。"
    text = f"Started: {app}" + (f' "{label}"' if label else "")
    return text + (f", {spoken(length, chinese=False)}" if length else "") + "; it is running."


def tell_outcome(
    title: str, arguments: Mapping[str, Any], result: Mapping[str, Any], *, chinese: bool
) -> str:
    """A tool's result in words: its `outcome` with label, elapsed time and reason; otherwise its fields."""
    outcome = result.get("outcome")
    if not isinstance(outcome, str):
        return _tell_fields(title, result, chinese=chinese)
    label = str(result.get("label") or _label(arguments) or "")
    elapsed = _first_duration(result, ("elapsed_ms", "elapsed_seconds"))
    reason = result.get("reason")
    if chinese:
        text = f"{title}" + (f"“{label}”" if label else "") + f"：{_CHINESE_OUTCOMES.get(outcome, outcome)}"
        text += f"，共 {spoken(elapsed, chinese=True)}" if elapsed is not None else ""
        text += f"（{_reason_words(str(reason), chinese=True)}）" if reason else ""
        return _spaced(text) + "。"
    words = _ENGLISH_OUTCOMES.get(outcome, outcome.replace("_", " "))
    text = f"{title}" + (f' "{label}"' if label else "") + f": {words}"
    text += f" after {spoken(elapsed, chinese=False)}" if elapsed is not None else ""
    return text + (f" ({_reason_words(str(reason), chinese=False)})" if reason else "") + "."


def tell_operation_end(
    app: str, arguments: Mapping[str, Any], result: Mapping[str, Any], *, chinese: bool
) -> str:
    """How an operation that was running ended, when that becomes known later."""
    label = str(result.get("label") or _label(arguments) or "")
    elapsed = _first_duration(result, ("elapsed_ms", "elapsed_seconds"))
    outcome = str(result.get("outcome") or ("failed" if "code" in result else "completed"))
    name = f"“{label}”" if chinese else f'"{label}"'
    subject = f"{app} {name}" if label and not chinese else (f"{app}{name}" if label else app)
    reason = str(result.get("reason") or result.get("message") or "")
    if chinese:
        text = f"{subject}{_CHINESE_OUTCOMES.get(outcome, outcome)}"
        text += f"，一共 {spoken(elapsed, chinese=True)}" if elapsed is not None else ""
        return _spaced(text + (f"（{_reason_words(reason, chinese=True)}）" if reason else "")) + "。"
    verb = {"completed": "is complete", "failed": "failed", "not_started": "did not start"}.get(
        outcome, f"was {outcome.replace('_', ' ')}"
    )
    text = f"{subject} {verb}" + (f" after {spoken(elapsed, chinese=False)}" if elapsed is not None else "")
    return text + (f" ({_reason_words(reason, chinese=False)})" if reason else "") + "."


def tell_answer(state: str, value: Any, *, chinese: bool) -> str:
    """How a question to the person ended."""
    if state == "success":
        words = {"accepted": "已同意", "declined": "已拒绝"} if chinese else {}
        return f"你的回答：{words.get(str(value), value)}。" if chinese else f"You answered: {value}."
    if chinese:
        return {"dismissed": "你没有回答这个问题。", "timeout": "等待回答的时间到了。"}.get(
            state, "没有得到回答。"
        )
    return {
        "dismissed": "You dismissed the question.",
        "timeout": "The question was not answered in time.",
    }.get(state, "There was no answer.")


def chunks(text: str, *, words: int = 3) -> list[str]:
    """The text in pieces for streaming; joined they are the text."""
    pieces = re.findall(r"[\u4e00-\u9fff，。！？；：、“”（）…]{1,6}|\S+\s*|\s+", text)
    return ["".join(pieces[index : index + words]) for index in range(0, len(pieces), words)]


def _label(values: Mapping[str, Any]) -> str:
    return next((str(values[name]) for name in _LABEL_FIELDS if values.get(name)), "")


def _first_duration(values: Mapping[str, Any], names: Sequence[str] | None) -> int | None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or (names and name not in names):
            continue
        for ending, unit in _DURATION_UNITS.items():
            if name.endswith(ending):
                return int(value * unit)
    return None


def _reason_words(reason: str, *, chinese: bool) -> str:
    words = _CHINESE_REASONS if chinese else _ENGLISH_REASONS
    return words.get(reason, reason.replace("_", " "))


def _tell_fields(title: str, result: Mapping[str, Any], *, chinese: bool) -> str:
    shown: list[str] = []
    for name, value in list(result.items())[:12]:
        text = (
            "、".join(map(str, value))
            if isinstance(value, list) and all(map(_is_plain, value))
            else str(value)
        )
        shown.append(f"{name.replace('_', ' ')}: {text if len(text) <= 200 else text[:197] + '…'}")
    if not shown:
        return f"{title}：完成。" if chinese else f"{title}: done."
    colon, comma = ("：", "；") if chinese else (": ", "; ")
    return f"{title}{colon}{comma.join(shown)}"


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)
