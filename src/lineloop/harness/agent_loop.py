"""The journaled agent loop: ask a model, carry out its calls, repeat; what was recorded is replayed
(spec/protocol.md §6.4).

A model's response is recorded before it is used and never asked for again; tool results are recorded by the
runner. Only the step that was half finished when a process died is asked again, and its block starts
afresh, so that the visible text equals the text without the crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Protocol

from lineloop.harness.adapters.port import (
    Json,
    RunFailed,
    RunIO,
    RunRequest,
    RunResult,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from lineloop.kit.records import record

MODEL_RESPONSE = "model.response"
MAX_STEPS = 64

Say = Callable[[str], Awaitable[None]]


@record
class ModelResponse:
    """One response: its text, its calls as (tool name, arguments), and a result that replaces the text as
    the end. `unreadable` says, by the index of a call, why its arguments are none.
    """

    text: str = ""
    calls: tuple[tuple[str, Json], ...] = ()
    result: RunResult | None = None
    usage: Mapping[str, Any] | None = None
    unreadable: Mapping[int, str] = field(default_factory=dict[int, str])

    def to_json(self) -> Json:
        result = (
            None if self.result is None else {"format": self.result.format, "content": self.result.content}
        )
        value: Json = {"text": self.text, "calls": [list(call) for call in self.calls], "result": result}
        if self.unreadable:
            value["unreadable"] = {str(index): problem for index, problem in self.unreadable.items()}
        return value

    @classmethod
    def from_json(cls, value: Json) -> ModelResponse:
        result = value.get("result")
        return cls(
            value["text"],
            tuple((name, arguments) for name, arguments in value["calls"]),
            None if result is None else RunResult(result["format"], result["content"]),
            unreadable={int(index): words for index, words in value.get("unreadable", {}).items()},
        )


@record
class Step:
    """A response that was followed by tool results, in the order of its calls."""

    response: ModelResponse
    results: tuple[ToolResult, ...]


@record
class Prompt:
    """Everything a response may depend on."""

    request: RunRequest
    tools: Sequence[ToolSpec]
    steps: Sequence[Step]


class Model(Protocol):
    """Whatever produces responses. `say` streams text of the response, in order; it must add up to `text`.

    `text_block` is the type of block its words are: `text` as they stand, or `markdown`.
    """

    text_block: ClassVar[str]

    async def respond(self, prompt: Prompt, say: Say, io: RunIO) -> ModelResponse: ...

    def narrate(self, prompt: Prompt, call: ToolCall, receipt: Json) -> str | None:
        """Words for a receipt of a call that is not back yet."""
        ...


async def run_agent_loop(model: Model, request: RunRequest, io: RunIO) -> RunResult:
    """Runs or continues the loop. Raises RunFailed; a waiting call leaves through the runner and comes back
    here.
    """
    tools = await io.tools()
    steps: list[Step] = []
    for number in range(1, MAX_STEPS + 1):
        prompt = Prompt(request, tools, tuple(steps))
        response = await _respond(model, prompt, number, io)
        if not response.calls:
            return response.result or RunResult("text", response.text)
        calls = [
            ToolCall(f"{number}.{index}", name, arguments, response.unreadable.get(index, ""))
            for index, (name, arguments) in enumerate(response.calls)
        ]

        def narrate(call: ToolCall, receipt: Json, prompt: Prompt = prompt) -> str | None:
            return model.narrate(prompt, call, receipt)

        steps.append(Step(response, tuple(await io.call(calls, narrate))))
    raise RunFailed("run_failed", f"the run took more than {MAX_STEPS} steps")


async def _respond(model: Model, prompt: Prompt, number: int, io: RunIO) -> ModelResponse:
    recorded = io.recorded(MODEL_RESPONSE, str(number))
    if recorded is not None:
        return ModelResponse.from_json(recorded)
    block_id = f"text-{number}"
    said = False

    def block(text: str) -> Json:
        return {"id": block_id, "type": model.text_block, "content": text}

    async def say(text: str) -> None:
        nonlocal said
        if not text:
            return
        if said:
            await io.emit(
                {"op": "append", "mask": "block.content", "block": {"id": block_id, "content": text}}
            )
        else:
            # A half-written block of an attempt that died is replaced as a whole.
            await io.emit({"op": "set", "block": block(text)})
        said = True
        await io.flush()

    response = await model.respond(prompt, say, io)
    if not said and response.text:
        await io.emit({"op": "set", "block": block(response.text)})
    await io.record(
        MODEL_RESPONSE,
        str(number),
        {"calls": len(response.calls), **({"usage": dict(response.usage)} if response.usage else {})},
        response.to_json(),
    )
    return response
