"""Runs of a model over real HTTP: every quirk and fault of a server, take-over, cancel, and what is kept."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai.resources.chat.completions
import pytest
from tests.contract.runs.run_world import RunWorld, envelope, run_world

from lineloop.harness.adapters.model import ModelAdapter
from lineloop.harness.adapters.port import RunIO, RunResult
from lineloop.harness.agent_loop import ModelResponse, Prompt, Say
from lineloop.harness.model_server import Endpoint
from lineloop.harness.model_targets import MODEL_HARNESS
from lineloop.kit import json
from lineloop.protocol.envelopes import Stage
from lineloop.protocol.errors import LoopError
from lineloop.protocol.machines import RunPhase
from lineloop.server.run_records import RunRow
from lineloop.testing.model_server import Answer, FakeModelServer, Reply, fake_model_server, results_of
from lineloop.testing.model_server import starts_a_focus as starts
from lineloop.testing.waiting import until

TARGET = "openai:small"
KEY = "sk-very-secret-7731"

# The package is imported when a run begins; here before, so that no test waits for it.
assert openai.resources.chat.completions


class WatchedAdapter(ModelAdapter):
    """Virtual time stands still while a response is under way."""

    busy = 0

    async def respond(self, prompt: Prompt, say: Say, io: RunIO) -> ModelResponse:
        with self._watched():
            return await super().respond(prompt, say, io)

    async def repair(self, request: Any, invalid: Any, problem: str, io: RunIO) -> RunResult | None:
        with self._watched():
            return await super().repair(request, invalid, problem, io)

    @contextmanager
    def _watched(self) -> Generator[None]:
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1


@dataclass
class ModelWorld:
    runs: RunWorld
    server: FakeModelServer
    key: str | None = KEY

    def adapter(self, *, stands_still: bool = True) -> WatchedAdapter:
        adapter = WatchedAdapter(lambda _: Endpoint(self.server.base_url, self.key, is_local=False))
        if stands_still:
            self.runs.clock.settle_on(lambda: not adapter.busy)
        return adapter

    async def run(self, answer: Answer, text: str = "hello", **fields: Any) -> RunRow:
        self.server.answer = answer
        await self.runs.start_engine(self.adapter())
        return await self.runs.submit(text, target=TARGET, **fields)

    async def said(self, answer: Answer, **fields: Any) -> Any:
        run = await self.run(answer, **fields)
        await self.runs.reach(run, RunPhase.SUCCEEDED)
        return await self.runs.result(run)

    async def failed(self, answer: Answer) -> dict[str, Any]:
        run = await self.runs.reach(await self.run(answer), RunPhase.FAILED)
        assert run.error is not None
        return run.error

    async def begun(self, run: RunRow) -> None:
        """Answers the next call of a tool: the operation has started."""
        invoke = await self.runs.next_invoke()
        await self.runs.receipt(invoke, Stage.STARTING, 1)
        await self.runs.receipt(invoke, Stage.STARTED, 2, duration_ms=60_000)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ModelWorld]:
    with fake_model_server(lambda _: Reply(("hi",)), key=KEY) as server:
        async with run_world(tmp_path, targets=("demo", MODEL_HARNESS)) as runs:
            yield ModelWorld(runs, server)


@pytest.fixture
async def with_device(world: ModelWorld) -> ModelWorld:
    await world.runs.connect_device()
    await world.runs.publish()
    return world


def in_turn(*replies: Reply) -> Answer:
    """Each reply once, the last one from then on."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


async def test_a_model_is_sent_what_was_said_and_its_words_are_the_result(world: ModelWorld) -> None:
    history = [{"role": "person", "text": "one"}, {"role": "assistant", "text": "two"}]
    run = await world.run(lambda _: Reply(("Good ", "day"), torn=True), history=history)
    await world.runs.reach(run, RunPhase.SUCCEEDED)
    assert (await world.runs.result(run), await world.runs.text(run)) == ("Good day", "Good day")
    (body,) = world.server.requests
    assert body["model"] == "small"
    assert [m["content"] for m in body["messages"][1:]] == ["one", "two", "hello"]
    message = await world.runs.message(run.message_id)
    assert message.content["meta"]["harness"] == {"target": TARGET}
    assert [block["type"] for block in message.content["blocks"]] == ["markdown", "result"]
    (response,) = [e for e in await ledger(world, run) if e.type == "model.response"]
    assert response.facts["usage"] == {"input_tokens": 12, "output_tokens": 5}


@pytest.mark.parametrize("quirk", [{}, {"index_zero": True}, {"usage": False}, {"torn": True}], ids=str)
async def test_two_calls_of_one_response_reach_the_device_whatever_the_quirk(
    with_device: ModelWorld, quirk: dict[str, Any]
) -> None:
    calls = (
        ("pomodoro__pomodoro_start", '{"minutes": 1, "label": "茶🍵"}'),
        ("pomodoro__pomodoro_interrupt", '{"reason": "later"}'),
    )

    def answer(body: dict[str, Any]) -> Reply:
        return (Reply(("都好",)) if results_of(body) else Reply(("好的🍵",), calls)).but(**quirk)

    run = await with_device.run(answer, tools=["inventory"])
    for number, params in ((1, {"minutes": 1, "label": "茶🍵"}), (2, {"reason": "later"})):
        invoke = await with_device.runs.next_invoke(number)
        assert envelope(invoke)["payload"]["params"] == params
        await with_device.runs.answer(invoke, 1, {"outcome": "completed"})
    await with_device.runs.reach(run, RunPhase.SUCCEEDED)
    assert await with_device.runs.result(run) == "都好"
    output = await with_device.runs.message(run.message_id)
    assert output.content["blocks"][0]["content"] == "好的🍵"


async def test_a_stream_that_breaks_off_is_asked_for_again_and_nothing_stands_twice(
    world: ModelWorld,
) -> None:
    run = await world.run(in_turn(Reply(("One ", "two "), cut=True), Reply(("One ", "two ", "three"))))
    await world.runs.reach(run, RunPhase.SUCCEEDED)
    assert await world.runs.text(run) == "One two three"
    assert (await world.runs.ledger(run)).count("retry") == 1


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_server_with_too_much_to_do_is_asked_again(world: ModelWorld, status: int) -> None:
    assert await world.said(in_turn(Reply(status=status), Reply(("ok",)))) == "ok"
    assert world.server.asked == 2


async def test_a_server_that_stays_busy_fails_the_run_with_its_code(world: ModelWorld) -> None:
    error = await world.failed(lambda _: Reply(status=429))
    assert error == {"code": "model_overloaded", "message": "The model's server has too much to do."}
    assert world.server.asked == 4


async def test_a_server_that_is_not_there_fails_the_run_with_its_code(world: ModelWorld) -> None:
    world.server.base_url = "http://127.0.0.1:9/v1"
    assert (await world.failed(lambda _: Reply(("hi",))))["code"] == "model_unreachable"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(status=404), "model_unknown"),
        (Reply(status=400, message="small does not support tools"), "model_refused"),
        (Reply(status=429, error_code="insufficient_quota"), "model_refused"),
        (Reply(redirect="http://127.0.0.1:9/elsewhere"), "model_refused"),
        (Reply(raw=b"<html>hello</html>"), "model_unreachable"),
        (Reply(raw=b"data: {not json\n\n"), "model_answer_invalid"),
        (Reply(raw=b"data: 5\n\n"), "model_answer_invalid"),
        (Reply(raw=b'data: {"choices": 7}\n\n'), "model_answer_invalid"),
        (Reply(raw=b"data: \xff\xfe\n\n"), "model_answer_invalid"),
        (Reply(raw=b'data: {"error": {"message": "out of memory"}}\n\n'), "model_overloaded"),
        (Reply(("  ",)), "model_answer_invalid"),
    ],
    ids=str,
)
async def test_a_fault_of_the_server_ends_the_run_with_a_public_code(
    world: ModelWorld, reply: Reply, code: str
) -> None:
    error = await world.failed(lambda _: reply)
    assert error["code"] == code
    assert error["message"]


async def test_a_key_that_is_not_accepted_fails_at_once_and_is_written_nowhere(world: ModelWorld) -> None:
    world.key = "sk-wrong-key-0042"
    run = await world.runs.reach(await world.run(lambda _: Reply(("hi",))), RunPhase.FAILED)
    assert run.error is not None
    assert run.error["code"] == "model_unauthorized"
    assert len(world.server.paths) == 1
    everything = f"{run}{await ledger(world, run)}{await world.runs.patch_log(run)}"
    assert world.key not in everything
    assert "API key" not in everything


async def test_a_key_in_a_servers_words_is_hidden(world: ModelWorld) -> None:
    error = await world.failed(lambda _: Reply(status=400, message=f"bad request by {KEY}"))
    assert error["message"] == "The model's server refused the request: bad request by (hidden)"


async def test_without_a_key_a_provider_is_not_asked(world: ModelWorld) -> None:
    world.key = None
    assert (await world.failed(lambda _: Reply(("hi",))))["code"] == "model_unauthorized"
    assert world.server.paths == []


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (("pomodoro__pomodoro_start", '{"minutes": 1, "lab'), "invalid_arguments"),
        (("pomodoro__pomodoro_start", '{"minutes": "one"}'), "invalid_arguments"),
        (("pomodoro__pomodoro_start", "[]"), "invalid_arguments"),
        (("no such/function", "{}"), "tool_not_visible"),
        (("", "{}"), "tool_not_visible"),
    ],
)
async def test_a_call_that_cannot_be_sent_goes_back_to_the_model_as_an_error(
    with_device: ModelWorld, call: tuple[str, str], code: str
) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        results = results_of(body)
        return Reply((f"error {results[0]['code']}",)) if results else Reply(calls=(call,))

    assert await with_device.said(answer, tools=["inventory"]) == f"error {code}"
    assert await with_device.runs.invokes() == []
    assistant = with_device.server.requests[1]["messages"][-2]
    json.loads(assistant["tool_calls"][0]["function"]["arguments"])


async def test_a_focus_is_said_to_run_only_after_it_started(with_device: ModelWorld) -> None:
    run = await with_device.run(starts, "start a focus", tools=["inventory", "human"])
    invoke = await with_device.runs.next_invoke()
    await with_device.runs.receipt(invoke, Stage.STARTING, 1)
    assert "running" not in await with_device.runs.text(run)
    assert with_device.server.asked == 1
    await with_device.runs.receipt(invoke, Stage.STARTED, 2, duration_ms=60_000)
    await with_device.runs.reach(run, RunPhase.SUCCEEDED)
    assert await with_device.runs.result(run) == "Started: tea 🍵, one minute; it is running."


async def test_a_focus_that_does_not_start_is_not_said_to_run(with_device: ModelWorld) -> None:
    run = await with_device.run(starts, "start a focus", tools=["inventory"])
    await with_device.runs.refuse(
        await with_device.runs.next_invoke(), 1, LoopError("no", code="app_not_running")
    )
    await with_device.runs.reach(run, RunPhase.SUCCEEDED)
    assert await with_device.runs.result(run) == "It did not start: app_not_running."


@pytest.mark.parametrize(
    ("label", "nth"),
    [("harness.step", 1), ("harness.tool_dispatch", 1), ("harness.tool_result", 1), ("harness.finish", 1)],
)
@pytest.mark.parametrize("side", ["before", "after"])
async def test_after_a_take_over_a_recorded_response_is_not_asked_for_and_a_call_runs_once(
    with_device: ModelWorld, label: str, nth: int, side: str
) -> None:
    world = with_device
    world.server.answer = starts
    await world.runs.start_engine(world.adapter(), death=(label, nth, side))
    run = await world.runs.submit("start a focus", target=TARGET, tools=["inventory"])
    answered = died = False
    for _ in range(200):
        await world.runs.clock.settle()
        if not died and world.runs.engine_died:
            died = True
            await world.runs.kill_engine()
            await world.runs.outlive_leases()
            await world.runs.start_engine(world.adapter())
        if not answered and await world.runs.invokes():
            answered = True
            await world.begun(run)
        if (await world.runs.run(run)).phase is RunPhase.SUCCEEDED:
            break
        await world.runs.clock.advance(0.5)
    assert died or world.runs.engine_died
    assert await world.runs.result(run) == "Started: tea 🍵, one minute; it is running."
    assert len(await world.runs.invokes()) == 1
    recorded = (await world.runs.ledger(run)).count("model.response")
    # A response is recorded with what follows from it; only one of which nothing followed is asked for again.
    lost = label == "harness.step" or (side == "before" and label != "harness.tool_result")
    assert (recorded, world.server.asked) == (2, 3 if lost else 2)
    output = await world.runs.message(run.message_id)
    texts = [b["content"] for b in output.content["blocks"] if b["type"] == "markdown"]
    assert texts == ["Started: tea 🍵, one minute; it is running."]


@pytest.mark.parametrize("ends", ["cancelled", "timed_out"])
async def test_a_stop_or_a_deadline_lets_go_of_the_server(world: ModelWorld, ends: str) -> None:
    world.server.open.clear()
    await world.runs.start_engine(adapter := world.adapter(stands_still=False))
    run = await world.runs.submit("hello", target=TARGET, timeout_ms=60_000)
    await until(lambda: world.server.asked == 1)
    if ends == "cancelled":
        await world.runs.runs.cancel(run.id)
    else:
        await world.runs.clock.advance(61)
    await world.runs.reach(run, RunPhase(ends))
    await until(lambda: not adapter.busy)
    assert await world.runs.text(run) == ""


async def test_a_result_that_breaks_its_schema_is_asked_for_once_more(world: ModelWorld) -> None:
    schema = {"type": "object", "required": ["n"], "additionalProperties": False, "properties": {"n": {}}}
    replies = in_turn(Reply(('{"m": 1}',)), Reply(('```json\n{"n": 1}\n```',)))
    assert await world.said(replies, output_schema=schema) == {"n": 1}
    again = world.server.requests[1]["messages"]
    assert [m["role"] for m in again] == ["system", "user", "assistant", "user"]
    assert "tools" not in world.server.requests[1]


async def test_a_repaired_result_is_not_asked_for_again_after_a_take_over(world: ModelWorld) -> None:
    world.server.answer = in_turn(Reply(("no json",)), Reply(("[1]",)))
    adapter = world.adapter()
    await world.runs.start_engine(adapter, death=("harness.finish", 1, "before"))
    run = await world.runs.submit("hello", target=TARGET, output_schema={"type": "array"})
    await until(lambda: world.runs.engine_died)
    await world.runs.kill_engine()
    await world.runs.outlive_leases()
    await world.runs.start_engine(world.adapter())
    await world.runs.reach(run, RunPhase.SUCCEEDED)
    assert await world.runs.result(run) == [1]
    assert world.server.asked == 2


async def test_a_server_on_this_machine_gets_no_headers_of_other_providers(
    world: ModelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "foreign-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: foreign-secret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    adapter = WatchedAdapter(lambda _: Endpoint(world.server.base_url, KEY, is_local=True))
    world.runs.clock.settle_on(lambda: not adapter.busy)
    await world.runs.start_engine(adapter)
    run = await world.runs.submit("hello", target="ollama:small")
    await world.runs.reach(run, RunPhase.SUCCEEDED)
    (headers,) = world.server.headers
    assert "foreign-secret" not in str(headers)
    assert headers["authorization"] == f"Bearer {KEY}"
    assert os.environ["OPENAI_ORG_ID"] == "foreign-secret"


async def test_without_the_package_a_run_fails_with_the_way_to_get_it(
    world: ModelWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineloop.harness.model_server.LIBRARY", "openai_that_is_not_installed")
    error = await world.failed(lambda _: Reply(("hi",)))
    assert error["code"] == "unsupported"
    assert "lineloop[models]" in error["message"]


@pytest.mark.parametrize("target", ["openai:", "openai", "model:", "nobody:small", "demo:x"])
async def test_a_target_that_names_no_model_is_refused(world: ModelWorld, target: str) -> None:
    with pytest.raises(LoopError) as refused:
        await world.runs.submit("hello", target=target)
    assert refused.value.code == "harness_target_unknown"
    assert {"demo", "openai:NAME", "ollama:NAME"} <= set(refused.value.detail["targets"])


async def test_words_that_come_while_others_are_stored_are_stored_together(world: ModelWorld) -> None:
    pieces = tuple(f"{number} " for number in range(500))
    run = await world.run(lambda _: Reply(pieces))
    await world.runs.reach(run, RunPhase.SUCCEEDED)
    assert await world.runs.text(run) == "".join(pieces)
    assert len(await world.runs.patch_log(run)) < 500


async def ledger(world: ModelWorld, run: RunRow) -> list[Any]:
    return await world.runs.runs.ledger(run.id, after=0, limit=1000)
