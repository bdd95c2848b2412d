"""The demo's script: a pure function from what was said and what came back to the next response.

It stands where a model would stand, so every real path is taken: streamed words, tool calls from the live
inventory, questions to the person, JSON results, failure. It never claims to be an AI (see
speech.signature).
"""

from __future__ import annotations

from typing import Any, ClassVar

from lineloop.harness.adapters.port import (
    Json,
    RunFailed,
    RunIO,
    RunResult,
    ToolCall,
    ToolOutcome,
    ToolSpec,
)
from lineloop.harness.agent_loop import ModelResponse, Prompt, Say
from lineloop.harness.demo import speech
from lineloop.harness.demo.arguments import fill_one
from lineloop.harness.demo.commands import Command, parse_command
from lineloop.harness.demo.matching import choose_tool
from lineloop.protocol.content import TEXT_BLOCK

ASK = "ask"
CONFIRM = "confirm"
MAX_QUESTIONS = 3
_GREETINGS = (
    "hello",
    "hi",
    "hey",
    "good morning",
    "good evening",
    "你好",
    "您好",
    "嗨",
    "早上好",
    "晚上好",
    "在吗",
)


class DemoScript:
    """A `Model` of the agent loop that follows rules."""

    text_block: ClassVar[str] = TEXT_BLOCK

    async def respond(self, prompt: Prompt, say: Say, io: RunIO) -> ModelResponse:
        command = parse_command(prompt.request.text)
        if command is not None and command.name == "slow" and not command.problem:
            return await self._slow(command, prompt, say, io)
        response = self._command(command, prompt) if command is not None else self._converse(prompt)
        for piece in speech.chunks(response.text):
            await say(piece)
        return response

    def narrate(self, prompt: Prompt, call: ToolCall, receipt: Json) -> str | None:
        tool = _tool_named(prompt, call.name)
        if tool is None or tool.is_human:
            return None
        chinese = speech.is_chinese(prompt.request.text)
        return speech.preparing(tool, str(receipt.get("stage", "")), chinese=chinese)

    async def _slow(self, command: Command, prompt: Prompt, say: Say, io: RunIO) -> ModelResponse:
        parts: list[str] = []
        for number in range(1, command.number + 1):
            await io.sleep(1.0)
            parts.append(f"{number} " if number < command.number else f"{number}.")
            await say(parts[-1])
        ending = "\n" + _signature(prompt)
        await say(ending)
        return ModelResponse("".join(parts) + ending)

    def _command(self, command: Command, prompt: Prompt) -> ModelResponse:
        chinese = speech.is_chinese(prompt.request.text)
        if command.problem:
            return _said(prompt, command.problem)
        if command.name == "help":
            return _said(prompt, speech.help_text(chinese=chinese))
        if command.name == "echo":
            return _said(prompt, command.text)
        if command.name == "fail":
            raise RunFailed("run_failed", command.text or "The demo failed because it was told to.")
        if command.name == "json":
            return ModelResponse(result=RunResult("json", command.value))
        if prompt.steps:
            return self._tell_back(prompt)
        if command.name == "ask":
            question, *choices = [part.strip() for part in command.text.split("|")]
            arguments: Json = {"question": question, "allow_other": not choices}
            if choices:
                arguments["choices"] = [{"value": choice, "label": choice} for choice in choices if choice]
            return _ask_person(prompt, ASK, arguments)
        if command.name == "confirm":
            return _ask_person(prompt, CONFIRM, {"question": command.text})
        tool = _tool_by_method(prompt, command.text)
        if tool is None:
            return _said(prompt, f"There is no tool {command.text} in the inventory.")
        if not isinstance(command.value, dict):
            return _said(prompt, "/tool takes a JSON object of arguments.")
        return ModelResponse(calls=((tool.name, command.value),))

    def _converse(self, prompt: Prompt) -> ModelResponse:
        text = prompt.request.text
        chinese = speech.is_chinese(text)
        if prompt.steps and _last_call_was_tool(prompt):
            return self._tell_back(prompt)
        if not prompt.steps and text.strip(" .!?,。！？，~").lower() in _GREETINGS:
            return _said(prompt, speech.greeting(prompt.tools, chinese=chinese))
        choice = choose_tool(text, prompt.tools)
        if choice is None:
            return _said(prompt, speech.no_tool_fits(text, prompt.tools, chinese=chinese))
        arguments, missing = dict(choice.filled.arguments), dict(choice.filled.missing)
        for step in prompt.steps:
            state, value = _answer_of(step.results[0].content)
            if state != "success":
                return _said(prompt, speech.tell_answer(state, value, chinese=chinese))
            name = next(iter(missing))
            filled, problem = fill_one(name, _property(choice.tool, name), str(value))
            if problem is None:
                arguments[name] = filled
                del missing[name]
            else:
                missing[name] = problem or missing[name]
        if not missing:
            return ModelResponse(calls=((choice.tool.name, arguments),))
        name, reason = next(iter(missing.items()))
        question = speech.question_for(
            choice.tool, name, _property(choice.tool, name), reason, chinese=chinese
        )
        if len(prompt.steps) >= MAX_QUESTIONS or _tool_named(prompt, ASK) is None:
            return _said(prompt, question)
        return _ask_person(prompt, ASK, _question_arguments(question, _property(choice.tool, name)))

    def _tell_back(self, prompt: Prompt) -> ModelResponse:
        chinese = speech.is_chinese(prompt.request.text)
        step = prompt.steps[-1]
        told: list[str] = []
        for (name, arguments), result in zip(step.response.calls, step.results, strict=True):
            tool = _tool_named(prompt, name)
            if tool is not None and not tool.is_human:
                told.append(speech.tell_result(tool, arguments, result, chinese=chinese))
            elif result.outcome is ToolOutcome.RESULT:
                state, value = _answer_of(result.content)
                told.append(speech.tell_answer(state, value, chinese=chinese))
            else:
                told.append(str(result.content.get("message", "")))
        return _said(prompt, "\n".join(told))


def _said(prompt: Prompt, text: str) -> ModelResponse:
    return ModelResponse(f"{text}\n{_signature(prompt)}")


def _signature(prompt: Prompt) -> str:
    known = any(speech.DEMO_LABEL in str(entry.get("text", "")) for entry in prompt.request.history)
    return speech.signature(chinese=speech.is_chinese(prompt.request.text), first=not known)


def _ask_person(prompt: Prompt, function: str, arguments: Json) -> ModelResponse:
    if _tool_named(prompt, function) is None:
        return _said(prompt, str(arguments["question"]))
    return ModelResponse(calls=((function, arguments),))


def _question_arguments(question: str, schema: Json) -> Json:
    values = schema.get("enum")
    if isinstance(values, list) and values:
        choices = [{"value": str(value), "label": str(value)} for value in values]
        return {"question": question, "choices": choices, "allow_other": False}
    return {"question": question, "allow_other": True}


def _last_call_was_tool(prompt: Prompt) -> bool:
    tool = _tool_named(prompt, prompt.steps[-1].response.calls[0][0])
    return tool is None or not tool.is_human


def _answer_of(content: Json) -> tuple[str, Any]:
    return str(content.get("state", content.get("code", "failure"))), content.get("value")


def _tool_named(prompt: Prompt, name: str) -> ToolSpec | None:
    return next((tool for tool in prompt.tools if tool.name == name), None)


def _tool_by_method(prompt: Prompt, named: str) -> ToolSpec | None:
    """By method, or by `app_scope.method`."""
    for tool in prompt.tools:
        if not tool.is_human and named in (tool.method, f"{tool.app_scope}.{tool.method}"):
            return tool
    return None


def _property(tool: ToolSpec, name: str) -> Json:
    schema = tool.input_schema.get("properties", {}).get(name, {})
    return schema if isinstance(schema, dict) else {}
