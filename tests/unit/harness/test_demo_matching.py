"""Which tool a sentence means, judged against the real manifest of Pomodoro and some others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lineloop.harness.adapters.port import ToolSpec
from lineloop.harness.demo.arguments import fill_arguments, fill_one
from lineloop.harness.demo.matching import choose_tool
from lineloop.kit import json
from lineloop.protocol.tools import ToolDescriptor

ROOT = Path(__file__).resolve().parents[3]


def spec_of(tool: ToolDescriptor, app_title: str) -> ToolSpec:
    return ToolSpec(
        name=tool.model_name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        app_scope=tool.app_scope,
        method=tool.method,
        contract_version=tool.contract_version,
        app_title=app_title,
        call_model=str(tool.call_model),
    )


def pomodoro() -> list[ToolSpec]:
    manifest = json.loads((ROOT / "apps/pomodoro/manifest.json").read_text(encoding="utf-8"))
    scope = manifest["app_scope"]
    return [
        spec_of(ToolDescriptor.from_wire({**tool, "app_scope": scope}), manifest["title"])
        for tool in manifest["tools"]
    ]


def tool(
    method: str, title: str, description: str, properties: dict[str, Any], required: list[str]
) -> ToolSpec:
    scope = method.split(".")[0]
    schema = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(
        f"{scope}__{method}", title, description, schema, scope, method, "1", scope.title(), "command"
    )


OTHERS = [
    tool(
        "todo.add",
        "Add a todo",
        "Adds an item to the todo list. 添加待办。",
        {"text": {"type": "string"}, "priority": {"enum": ["low", "high"]}},
        ["text"],
    ),
    tool("todo.list", "List todos", "Shows the todo list. 列出待办。", {"done": {"type": "boolean"}}, []),
    tool("board.clear", "Clear the whiteboard", "Removes everything from the whiteboard. 清空白板。", {}, []),
]


@pytest.mark.parametrize(
    ("text", "method", "arguments"),
    [
        ("start a 1 minute focus called tea", "pomodoro.start", {"minutes": 1, "label": "tea"}),
        ("现在开始 20 分钟的冥想，帮我计时", "pomodoro.start", {"minutes": 20}),
        ("开始一个叫喝茶的专注，二十分钟", "pomodoro.start", {"minutes": 20, "label": "喝茶"}),
        ("focus for half an hour", "pomodoro.start", {"minutes": 30}),
        ("give me a timer for ten minutes", "pomodoro.start", {"minutes": 10}),
        ('start a 5 minute focus named "stop here"', "pomodoro.start", {"minutes": 5, "label": "stop here"}),
        ("专注 25 分钟", "pomodoro.start", {"minutes": 25}),
        ("start a focus, minutes: 15", "pomodoro.start", {"minutes": 15}),
        ('start {"minutes": 7, "label": "json"}', "pomodoro.start", {"minutes": 7, "label": "json"}),
        ("stop", "pomodoro.interrupt", {}),
        ("Stop!", "pomodoro.interrupt", {}),
        ("停止", "pomodoro.interrupt", {}),
        ("结束这次专注", "pomodoro.interrupt", {}),
        ("please end this session", "pomodoro.interrupt", {}),
        ("算了", "pomodoro.interrupt", {}),
        ("stop because the phone rings", "pomodoro.interrupt", {"reason": "the phone rings"}),
        ('add a todo "buy milk" high', "todo.add", {"text": "buy milk", "priority": "high"}),
        ("添加待办：买牛奶", "todo.add", {"text": "买牛奶"}),
        ("show my todos", "todo.list", {}),
        ("clear the whiteboard", "board.clear", {}),
        ("cancel", "pomodoro.interrupt", {}),
        ("end", "pomodoro.interrupt", {}),
        ("cancel it, please", "pomodoro.interrupt", {}),
        ("quit the focus", "pomodoro.interrupt", {}),
        ("end the timer", "pomodoro.interrupt", {}),
        ("结束", "pomodoro.interrupt", {}),
        ("could you start a 5 minute focus?", "pomodoro.start", {"minutes": 5}),
        ("可以帮我开始 10 分钟专注吗？", "pomodoro.start", {"minutes": 10}),
        ("how about a 10 minute focus?", "pomodoro.start", {"minutes": 10}),
        ("do a 10 minute focus", "pomodoro.start", {"minutes": 10}),
        ("I don't want tea, start a 5 minute focus", "pomodoro.start", {"minutes": 5}),
        ("don't start anything but stop the timer", "pomodoro.interrupt", {}),
        ("what? stop!", "pomodoro.interrupt", {}),
        ("start a 5 minute focus and don't stop it", "pomodoro.start", {"minutes": 5}),
        ('start a 5 minute focus called "why, how?"', "pomodoro.start", {"minutes": 5, "label": "why, how?"}),
    ],
)
def test_a_sentence_finds_its_tool_and_fills_the_parameters(
    text: str, method: str, arguments: dict[str, Any]
) -> None:
    choice = choose_tool(text, [*pomodoro(), *OTHERS])
    assert choice is not None
    assert (choice.tool.method, choice.filled.arguments, choice.filled.missing) == (method, arguments, {})


@pytest.mark.parametrize(
    "text",
    [
        *("hello", "你好", "thanks, that was great", "how are you?", "10 minutes?"),
        *("don't stop", "别停", "I do not want to stop", "don't cancel it", "不想开始 5 分钟的专注"),
        *(
            "don't start a 5 minute focus",
            "please don't start the 5 minute focus yet",
            "不要开始 10 分钟的专注",
        ),
        *("you shouldn't start a 10 minute timer", "不要开始 10 分钟的专注"),
        *("how long is the focus of 25 minutes", "how do I start a focus?", "怎么开始专注？"),
        *("should I start a 10 minute focus?", "要不要开始十分钟专注？", "did the timer stop?"),
        *("when does my focus end?", "什么时候结束？", "what does cancel do?", "why did it stop?"),
        *("quit", "exit", "退出", "quit smoking", "end of story", "end the day with a joke"),
    ],
)
def test_small_talk_questions_and_refusals_choose_no_tool(text: str) -> None:
    assert choose_tool(text, [*pomodoro(), *OTHERS]) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("start a focus", ""),
        ("start a 300 minute focus", "300 is more than 180"),
        ("来一个番茄钟", ""),
        ("90 seconds focus", "1.5 is not a whole number"),
    ],
)
def test_a_parameter_that_is_missing_or_does_not_fit_is_never_guessed(text: str, reason: str) -> None:
    choice = choose_tool(text, pomodoro())
    assert choice is not None
    assert choice.filled.arguments == {}
    assert list(choice.filled.missing) == ["minutes"]
    assert reason in choice.filled.missing["minutes"]


def test_a_duration_is_counted_in_the_unit_that_the_parameter_means() -> None:
    properties = {
        "timeout_ms": {"type": "integer"},
        "wait": {"type": "number", "description": "How long, in seconds."},
    }
    for name, value in (("timeout_ms", 90_000), ("wait", 90)):
        schema = {"properties": {name: properties[name]}, "required": [name]}
        assert fill_arguments(schema, "for 90 seconds").arguments == {name: value}


def test_booleans_and_enums_are_taken_from_the_words() -> None:
    schema = {"properties": {"loud": {"type": "boolean"}, "mode": {"enum": ["deep_work", "light"]}}}
    assert fill_arguments(schema, "deep work, not loud").arguments == {"loud": False, "mode": "deep_work"}
    assert fill_arguments(schema, "light and loud").arguments == {"loud": True, "mode": "light"}


def test_an_answer_to_a_question_fills_one_parameter_or_tells_why_not() -> None:
    minutes = {"type": "integer", "minimum": 1, "maximum": 180, "description": "How long, in minutes."}
    assert fill_one("minutes", minutes, "20") == (20, None)
    assert fill_one("minutes", minutes, "半小时") == (30, None)
    value, problem = fill_one("minutes", minutes, "500")
    assert value is None
    assert problem is not None
    assert fill_one("label", {"type": "string"}, '"tea"') == ("tea", None)


def test_a_question_may_look_something_up_and_changes_nothing() -> None:
    looks = replace(OTHERS[1], call_model="query")
    choice = choose_tool("what is on my todo list?", [OTHERS[0], looks, *pomodoro()])
    assert choice is not None
    assert choice.tool.method == "todo.list"
    assert choose_tool("what is on my todo list?", [*OTHERS, *pomodoro()]) is None
