"""The model adapter: the agent loop around a model that speaks OpenAI's chat completions.

Decides how one response is asked for and what it becomes. Where a family of models is reached, and with which
key, is the caller's to say for every response anew; the journal is the agent loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from lineloop.harness.adapters.port import (
    Cancel,
    Json,
    Reference,
    Replay,
    RunFailed,
    RunIO,
    RunRequest,
    RunResult,
    ToolCall,
)
from lineloop.harness.agent_loop import MODEL_RESPONSE, ModelResponse, Prompt, Say, run_agent_loop
from lineloop.harness.model_prompt import (
    FunctionNames,
    functions,
    model_messages,
    repair_messages,
    without_fence,
)
from lineloop.harness.model_server import Endpoint, ModelRequest, ModelServer, read_along
from lineloop.harness.model_stream import ResponsePieces
from lineloop.harness.model_targets import MODEL_HARNESS, Family, parse_target
from lineloop.protocol.content import MARKDOWN_BLOCK
from lineloop.protocol.error_codes import ErrorCode

REPAIR = "repair"

EndpointOf = Callable[[Family], Endpoint]


class ModelAdapter:
    """An `Adapter` for the models of every family: `openai:NAME`, `ollama:NAME` and so on."""

    name: ClassVar[str] = MODEL_HARNESS
    replay: ClassVar[Replay] = Replay.SNAPSHOT
    cancel: ClassVar[Cancel] = Cancel.BEST_EFFORT
    label: ClassVar[str] = ""
    text_block: ClassVar[str] = MARKDOWN_BLOCK

    def __init__(self, endpoint_of: EndpointOf) -> None:
        self._endpoint_of = endpoint_of
        self._server = ModelServer()

    async def run(self, request: RunRequest, io: RunIO) -> RunResult:
        return await run_agent_loop(self, request, io)

    async def resume(
        self,
        request: RunRequest,
        references: Sequence[Reference],  # noqa: ARG002 (part of the port: nothing runs elsewhere)
        io: RunIO,
    ) -> RunResult:
        return await run_agent_loop(self, request, io)

    async def repair(self, request: RunRequest, invalid: Any, problem: str, io: RunIO) -> RunResult | None:
        """Asks once more, without functions; the answer is recorded like every response."""
        recorded = io.recorded(MODEL_RESPONSE, REPAIR)
        if recorded is not None:
            return ModelResponse.from_json(recorded).result

        async def quietly(words: str) -> None:
            """A corrected result is no new text."""

        await io.flush()
        pieces = await self._ask(request, repair_messages(request, invalid, problem), (), quietly, io)
        response = ModelResponse(result=RunResult("text", without_fence(pieces.text)))
        facts: Json = {"calls": 0, **({"usage": pieces.usage} if pieces.usage else {})}
        await io.record(MODEL_RESPONSE, REPAIR, facts, response.to_json())
        await io.flush()
        return response.result

    # --- the `Model` of the agent loop ----------------------------------------------------------------------

    async def respond(self, prompt: Prompt, say: Say, io: RunIO) -> ModelResponse:
        request = prompt.request
        pieces = await self._ask(request, model_messages(prompt), functions(prompt.tools), say, io)
        names = FunctionNames(prompt.tools)
        calls, unreadable = pieces.calls()
        if not calls and not pieces.text.strip():
            raise _nothing(pieces)
        result = None
        if not calls and request.output_schema is not None:
            result = RunResult("text", without_fence(pieces.text))
        return ModelResponse(
            pieces.text,
            tuple((names.tool(name), arguments) for name, arguments in calls),
            result,
            pieces.usage or None,
            unreadable,
        )

    def narrate(
        self,
        prompt: Prompt,  # noqa: ARG002 (part of the port)
        call: ToolCall,  # noqa: ARG002
        receipt: Json,  # noqa: ARG002
    ) -> str | None:
        """A receipt is shown with its call; the model speaks when the call has come to something."""
        return None

    async def _ask(
        self, request: RunRequest, messages: Sequence[Json], offered: Sequence[Json], say: Say, io: RunIO
    ) -> ResponsePieces:
        """Raises RunFailed."""
        family, model = parse_target(request.target)
        endpoint = self._endpoint_of(family)
        if endpoint.key is None and not endpoint.is_local:
            words = f"There is no key for {family.label}; choose the model again and give one."
            raise RunFailed(ErrorCode.MODEL_UNAUTHORIZED, words)
        asked = ModelRequest(model, messages, offered)
        return await read_along(self._server, endpoint, asked, say, seconds=io.remaining_seconds)


def _nothing(pieces: ResponsePieces) -> RunFailed:
    if pieces.finish_reason == "content_filter":
        return RunFailed(ErrorCode.MODEL_REFUSED, "The provider withheld the answer.")
    if pieces.finish_reason == "length":
        return RunFailed(ErrorCode.MODEL_REFUSED, "The model used up its length before it said anything.")
    return RunFailed(ErrorCode.MODEL_ANSWER_INVALID, "The model answered nothing.", retryable=True)
