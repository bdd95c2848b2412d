"""What a model is sent is valid in the protocol's own rules, whatever was said and called before."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lineloop.harness.adapters.port import RunRequest, ToolOutcome, ToolResult, ToolSpec
from lineloop.harness.agent_loop import ModelResponse, Prompt, Step
from lineloop.harness.model_prompt import FunctionNames, functions, model_messages, without_fence
from lineloop.kit import json
from lineloop.protocol.actors import Actor

ALLOWED = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")


def request(text: str = "now", **fields: Any) -> RunRequest:
    actor = Actor("operator", "assistant")
    return RunRequest("run_1", "con_1", "ollama:small", text, actor, actor, 0, **fields)


def tool(name: str) -> ToolSpec:
    return ToolSpec(name, "Title", "What it does.", {"type": "object"}, "app", "method")


def test_every_call_of_a_step_is_followed_by_its_result() -> None:
    outcomes = (ToolOutcome.RESULT, ToolOutcome.STARTED, ToolOutcome.ERROR, ToolOutcome.CANCELLED)
    response = ModelResponse("on it", tuple(("a", {"n": n}) for n in range(len(outcomes))))
    results = tuple(
        ToolResult(f"1.{n}", outcome, {"code": "busy", "status": "mine"})
        for n, outcome in enumerate(outcomes)
    )
    messages = model_messages(Prompt(request(), [tool("a")], [Step(response, results)]))
    assert [message["role"] for message in messages] == ["system", "user", "assistant", *["tool"] * 4]
    ids = [call["id"] for call in messages[2]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in messages[3:]]
    assert len(set(ids)) == 4 and all(re.fullmatch("[a-z0-9]{9}", identity) for identity in ids)
    contents = [json.loads(message["content"]) for message in messages[3:]]
    assert [content["status"] for content in contents] == [str(outcome) for outcome in outcomes]
    assert contents[0]["result"]["status"] == "mine"


def test_two_turns_of_one_side_become_one() -> None:
    history = [
        {"role": "person", "text": "one"},
        {"role": "person", "text": "two"},
        {"role": "assistant", "text": "three"},
        {"role": "person", "text": "four"},
    ]
    messages = model_messages(Prompt(request("five", history=history), [], []))
    assert [(m["role"], m["content"]) for m in messages[1:]] == [
        ("user", "one\n\ntwo"),
        ("assistant", "three"),
        ("user", "four\n\nfive"),
    ]


def test_any_tool_name_is_shown_in_the_allowed_form_and_found_again() -> None:
    names = ["app__go", "app.x__go", "app_x__go", "番茄__开始", "long" * 40, "long" * 40 + "er"]
    tools = [tool(name) for name in names]
    shown = [function["function"]["name"] for function in functions(tools)]
    assert len(set(shown)) == len(names)
    assert all(ALLOWED.match(name) for name in shown)
    both = FunctionNames(tools)
    assert [both.tool(name) for name in shown] == names
    assert both.tool("invented") == "invented"
    assert ALLOWED.match(both.shown("in vent/ed")) and ALLOWED.match(both.shown(""))


def test_a_schema_for_the_answer_is_told() -> None:
    system = model_messages(Prompt(request(output_schema={"type": "array"}), [], []))[0]["content"]
    assert '{"type":"array"}' in system


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ("```\n[]\n```\n", "[]"),
        ("{}", "{}"),
        ("a ```b``` c", "a ```b``` c"),
    ],
)
def test_a_fence_around_a_whole_answer_is_taken_off(text: str, inside: str) -> None:
    assert without_fence(text) == inside
