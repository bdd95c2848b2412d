"""Runs: submitted once by key, observed by id from any process.

Decides how a call is observed (stream, then durable state, at most three reconnects) and that a full harness
is the caller's decision. Driving a run is the engine's; leaving a wait cancels nothing (spec/protocol.md
§6.2, §6.3).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NotRequired, Required, TypedDict, Unpack

from lineloop.client.retry import Retry, asked_pause_seconds, is_transient
from lineloop.client.sse import MessageEvent, StreamEvent, stream_once
from lineloop.client.transport import Transport
from lineloop.protocol.actors import Actor
from lineloop.protocol.error_codes import ERRORS, ErrorCode
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.messages import Message
from lineloop.protocol.paths import segment
from lineloop.protocol.runs import Run, RunPhase, RunResult

MAX_RECONNECTS = 3

_CODE_OF_PHASE = {
    RunPhase.CANCELLED: ErrorCode.RUN_CANCELLED,
    RunPhase.TIMED_OUT: ErrorCode.RUN_TIMED_OUT,
    RunPhase.UNKNOWN: ErrorCode.RUN_OUTCOME_UNKNOWN,
}


class PromptOptions(TypedDict):
    """What `prompt` takes besides its text.

    `target` names a harness of the server; `tools` are tool sources (`inventory`, `human`); `recipient` and
    `meta` shape the output message; the deadline is fixed at acceptance (default 30 minutes).
    """

    idempotency_key: Required[str]
    effect_key: Required[str]
    target: Required[str]
    history: NotRequired[Sequence[Mapping[str, Any]]]
    tools: NotRequired[Sequence[str]]
    output_schema: NotRequired[Mapping[str, Any]]
    actor: NotRequired[Actor]
    recipient: NotRequired[Actor]
    meta: NotRequired[Mapping[str, Any]]
    timeout_seconds: NotRequired[float]


class Call:
    """One run, observed. Holds no events and no task; any number of these may watch the same run."""

    def __init__(self, run_id: str, transport: Transport, retry: Retry, submitted: Run | None = None) -> None:
        self.id = run_id
        self.submitted = submitted
        self._transport = transport
        self._retry = retry

    async def get(self) -> Run:
        """The durable state now [read]. Raises LoopError `run_not_found`. Spec: spec/protocol.md §6.2."""
        answer = await self._retry.run(
            lambda: self._transport.request("GET", f"/v1/harness/runs/{segment(self.id)}")
        )
        return Run.from_wire(answer.body)

    async def stream(self) -> AsyncGenerator[StreamEvent, None]:
        """The output message and its updates until the run ends [read].

        A break reads the durable state and, while the run goes on, reconnects at most three times; a
        reconnect begins with the whole message again, and the last event is the ended message. Raises
        ConnectionLost after that, LoopError of a refusal. Spec: spec/protocol.md §8.5.
        """
        reconnects = 0
        last_event_id: str | None = None
        path = f"/v1/harness/runs/{segment(self.id)}/stream"
        while True:
            try:
                async with aclosing(stream_once(self._transport, path, last_event_id)) as events:
                    async for event_id, event in events:
                        last_event_id = event_id or last_event_id
                        yield event
                        if isinstance(event, MessageEvent) and event.message.status.ended:
                            return
                broken = ConnectionLost("the stream of the run ended early")
            except LoopError as error:
                if not is_transient(error):
                    raise
                broken = error
            run = await self.get()
            if run.ended:
                yield MessageEvent(await self._output(run.message_id))
                return
            reconnects += 1
            if reconnects > MAX_RECONNECTS:
                raise broken
            pause = self._retry.backoff.delay(reconnects - 1)
            await self._retry.clock.sleep(max(pause, asked_pause_seconds(broken)))

    async def _output(self, message_id: str) -> Message:
        answer = await self._retry.run(
            lambda: self._transport.request("GET", f"/v1/messages/{segment(message_id)}")
        )
        return Message.from_wire(answer.body)

    async def wait(self) -> Run:
        """The run at its end, whatever the end [read].

        Cancelling the wait, or closing the Loop, cancels no run. Raises ConnectionLost when the server could
        not be observed, LoopError `run_not_found`. Spec: spec/protocol.md §6.2.
        """
        run = await self.get()
        if run.ended:
            return run
        async with aclosing(self.stream()) as events:
            async for _ in events:
                pass
        return await self.get()

    async def result(self) -> RunResult:
        """Wait, then the result: `format` is text or json [read].

        Raises the LoopError of a run that did not succeed: `run_cancelled`, `run_timed_out`,
        `run_outcome_unknown`, or the code it failed with. Partial output is never a result.
        Spec: spec/protocol.md §6.3.
        """
        run = await self.wait()
        if run.phase is RunPhase.SUCCEEDED and run.result is not None:
            return run.result
        if not run.ended:
            raise ConnectionLost("the run goes on, but its end could not be observed")
        error = run.error or {}
        code = error.get("code")
        known = ErrorCode(code) if code in ERRORS else _CODE_OF_PHASE.get(run.phase, ErrorCode.RUN_FAILED)
        raise LoopError.from_problem(
            {"code": known, "detail": error.get("message") or f"the run ended {run.phase}"}
        )

    async def cancel(self) -> Run:
        """Ask to stop the run; whether a remote agent stops depends on its harness [write].

        Repeating it is harmless. Raises LoopError `run_not_found`. Spec: spec/protocol.md §6.2.
        """
        path = f"/v1/harness/runs/{segment(self.id)}/cancel"
        answer = await self._retry.run(lambda: self._transport.request("POST", path))
        return Run.from_wire(answer.body)


class Harness:
    """The verbs towards models and agents."""

    def __init__(self, transport: Transport, retry: Retry) -> None:
        self._transport = transport
        self._retry = retry

    async def prompt(self, conversation_id: str, text: str, **options: Unpack[PromptOptions]) -> Call:
        """Submit a run, or find the one already submitted under this key; returns at once [write].

        The output is one message of the conversation. Raises CapacityExceeded when every slot is taken
        (nothing is stored; never repeated by itself), Conflict `key_conflict` when the key was used for
        another request, InvalidRequest `harness_target_unknown`. Spec: spec/protocol.md §6.2.
        """
        body = _prompt_body(conversation_id, text, options)
        answer = await self._retry.run(lambda: self._transport.request("POST", "/v1/harness/runs", json=body))
        run = Run.from_wire(answer.body)
        return Call(run.id, self._transport, self._retry, run)

    def call(self, run_id: str) -> Call:
        """The handle of a known run; submits nothing."""
        return Call(run_id, self._transport, self._retry)


def _prompt_body(conversation_id: str, text: str, options: PromptOptions) -> dict[str, Any]:
    body: dict[str, Any] = {
        "conversation_id": conversation_id,
        "text": text,
        "idempotency_key": options["idempotency_key"],
        "effect_key": options["effect_key"],
        "target": options["target"],
    }
    if "history" in options:
        body["history"] = [dict(one) for one in options["history"]]
    if "tools" in options:
        body["tools"] = list(options["tools"])
    for name in ("output_schema", "meta"):
        if (value := options.get(name)) is not None:
            body[name] = dict(value)
    for name in ("actor", "recipient"):
        if (actor := options.get(name)) is not None:
            body[name] = actor.to_wire()
    if "timeout_seconds" in options:
        body["timeout_ms"] = round(options["timeout_seconds"] * 1000)
    return body
