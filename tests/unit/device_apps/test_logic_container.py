"""Handlers in the logic container: results, failures of every kind, isolation, restart."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.device_apps.apps_world import PROBE, AppsWorld, apps_world, call, probe_app

from lineloop.device.containers.child import LogicLimits
from lineloop.device.containers.port import Completed, ContainerFailed, Failed, Open
from lineloop.kit.faults import Faults
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing import until

BAD = "probe.misbehave"


def variant(tmp_path: Path, script: str) -> Path:
    """A copy of the probe with another logic.js."""
    target = tmp_path / "variant"
    shutil.copytree(PROBE, target)
    (target / "logic.js").write_text(script, encoding="utf-8")
    return target


@pytest.mark.requirement("D22")
async def test_a_handler_runs_with_no_page_open(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    assert await container.invoke(call("probe.echo", {"text": "grüß 你好 \u2028"})) == Completed(
        {"text": "grüß 你好 \u2028"}
    )


async def test_the_running_session_is_used_again(world: AppsWorld) -> None:
    session = await world.session()
    first, second = await asyncio.gather(
        world.pool.ensure(probe_app(), session), world.pool.ensure(probe_app(), session)
    )
    assert first is second
    assert await world.pool.ensure(probe_app(), session) is first


@pytest.mark.requirement("D20")
async def test_calls_overlap_while_a_handler_waits(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    waiting = asyncio.get_running_loop().create_task(container.invoke(call(BAD, {"how": "never"}, "call_a")))
    assert await container.invoke(call("probe.echo", {"text": "b"}, "call_b")) == Completed({"text": "b"})
    await container.cancel("call_a")
    ended = await waiting
    assert isinstance(ended, Failed)
    assert ended.code is ErrorCode.CANCELLED


async def test_handlers_use_session_data(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    calls = [container.invoke(call("probe.add", {"amount": n}, f"call_{n}")) for n in range(1, 11)]
    outcomes = await asyncio.gather(*calls)
    totals = sorted(outcome.result["total"] for outcome in outcomes if isinstance(outcome, Completed))
    assert totals[-1] == 55
    assert len(totals) == 10


async def test_an_interactive_call_stays_open_until_the_app_ends_it(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    assert await container.invoke(call("probe.ask", {"question": "why?"}, "call_q")) == Open()
    assert world.heard.progress_values == [("call_q", 1, {"asked": "why?"})]
    answer = call("probe.answer", {"call_id": "call_q", "answer": "because"}, "call_r")
    assert await container.invoke(answer) == Completed({"answered": "call_q"})
    assert world.heard.closed_calls == [("call_q", Completed({"answer": "because"}))]


async def test_an_open_call_can_be_cancelled(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    await container.invoke(call("probe.ask", {"question": "why?"}, "call_q"))
    await container.cancel("call_q")
    _, outcome = await until(lambda: world.heard.closed_calls and world.heard.closed_calls[0])
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.CANCELLED


@pytest.mark.requirement("D17")
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("throw", "threw"),
        ("reject", "threw"),
        ("recurse", "threw"),
        ("refuse", "app"),
        ("not_json", "output_invalid"),
        ("surrogate", "output_invalid"),
        ("deep", "output_invalid"),
        ("large", "output_invalid"),
        ("huge", "output_invalid"),
    ],
)
async def test_a_failing_handler_ends_its_call_and_nothing_else(
    world: AppsWorld, how: str, reason: str
) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    outcome = await container.invoke(call(BAD, {"how": how}))
    assert isinstance(outcome, Failed)
    assert (outcome.code, outcome.reason) == (ErrorCode.HANDLER_FAILED, reason)
    assert 0 < len(outcome.message) <= 500
    assert await container.invoke(call("probe.echo", {"text": "on"}, "call_2")) == Completed({"text": "on"})
    assert world.heard.exits == []


@pytest.mark.requirement("D17")
@pytest.mark.parametrize(
    ("how", "reasons"),
    [
        ("loop", {"time_limit"}),
        ("loop_later", {"time_limit"}),
        ("spin_promises", {"time_limit"}),
        ("eat_memory", {"memory_limit"}),
    ],
)
async def test_a_handler_that_takes_too_much_is_ended_and_the_app_starts_again(
    world: AppsWorld, how: str, reasons: set[str]
) -> None:
    session = await world.session()
    container = await world.pool.ensure(probe_app(), session)
    outcome = await container.invoke(call(BAD, {"how": how}))
    assert isinstance(outcome, Failed)
    assert outcome.code is ErrorCode.HANDLER_FAILED
    assert outcome.reason in reasons
    again = await world.pool.ensure(probe_app(), session)
    assert await again.invoke(call("probe.echo", {"text": "on"}, "call_2")) == Completed({"text": "on"})


@pytest.mark.requirement("D17")
async def test_a_process_killed_in_a_call_fails_the_call_once_and_is_restartable(world: AppsWorld) -> None:
    session = await world.session()
    container = await world.pool.ensure(probe_app(), session)
    calls = [
        asyncio.get_running_loop().create_task(container.invoke(call(BAD, {"how": "never"}, f"call_{n}")))
        for n in range(3)
    ]
    await container.invoke(call("probe.echo", {"text": "in"}, "call_in"))
    os.kill(world.pool.pids["probe"], signal.SIGKILL)
    for outcome in await asyncio.gather(*calls):
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.reason) == (ErrorCode.HANDLER_FAILED, "crashed")
    assert world.heard.exits == [("ses_1", "crashed")]
    assert not container.alive
    again = await world.pool.ensure(probe_app(), session)
    assert await again.invoke(call("probe.echo", {"text": "on"}, "call_2")) == Completed({"text": "on"})


@pytest.mark.requirement("D17")
async def test_a_process_that_answers_nothing_is_killed_by_the_watchdog(tmp_path: Path) -> None:
    limits = LogicLimits(turn_seconds=60.0, silence_seconds=0.3)
    async with apps_world(tmp_path, limits=limits) as world:
        container = await world.pool.ensure(probe_app(), await world.session())
        outcome = await container.invoke(call(BAD, {"how": "loop"}))
        assert isinstance(outcome, Failed)
        assert outcome.reason == "crashed"
        assert world.heard.exits == [("ses_1", "crashed")]


@pytest.mark.requirement("D24")
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("this is not JavaScript", "SyntaxError"),
        ("throw new Error('no start')", "no start"),
        ("for (;;);", "did not come to an end"),
        ("", "no handler for probe.add"),
        ("defineAgentTools({ 'probe.echo': 1 })", "is not a function"),
    ],
)
async def test_an_app_that_does_not_come_up_says_why(
    world: AppsWorld, tmp_path: Path, script: str, words: str
) -> None:
    app = probe_app(variant(tmp_path, script))
    with pytest.raises(ContainerFailed, match=words) as failure:
        await world.pool.ensure(app, await world.session())
    assert failure.value.reason == "app_start_failed"
    assert world.heard.exits == []


async def test_a_handler_that_the_manifest_does_not_know_is_refused(world: AppsWorld, tmp_path: Path) -> None:
    script = (PROBE / "logic.js").read_text(encoding="utf-8") + "defineAgentTools({ 'probe.more': () => 1 });"
    with pytest.raises(ContainerFailed, match="undeclared"):
        await world.pool.ensure(probe_app(variant(tmp_path, script)), await world.session())


@pytest.mark.requirement("D24")
async def test_an_app_without_logic_has_no_container(world: AppsWorld) -> None:
    with pytest.raises(ContainerFailed) as failure:
        await world.pool.ensure(replace(probe_app(), logic=None), await world.session())
    assert failure.value.reason == "no_container"


async def test_sessions_of_one_app_share_a_process_and_nothing_in_it(
    world: AppsWorld, tmp_path: Path
) -> None:
    one = await world.pool.ensure(probe_app(), await world.session("ses_1"))
    two = await world.pool.ensure(probe_app(), await world.session("ses_2"))
    assert len(world.pool.pids) == 1
    loops = asyncio.get_running_loop().create_task(one.invoke(call(BAD, {"how": "loop"})))
    assert await two.invoke(call("probe.add", {"amount": 1})) == Completed(
        {"total": 1, "revision": 1, "together": 1}
    )
    await loops
    assert two.alive
    assert not one.alive


async def test_apps_do_not_share_a_process(world: AppsWorld) -> None:
    await world.pool.ensure(probe_app(), await world.session())
    other = replace(probe_app(), app_scope="other")
    await world.pool.ensure(other, await world.session("ses_2", "other"))
    pids = world.pool.pids
    assert len(set(pids.values())) == 2
    os.kill(pids["other"], signal.SIGKILL)
    await until(lambda: world.heard.exits == [("ses_2", "crashed")])
    assert world.pool.running("probe", "ses_1") is not None


async def test_a_handler_reaches_nothing_outside(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    assert await container.invoke(call(BAD, {"how": "reach_out"})) == Completed({"done": ""})


async def test_the_process_gets_no_environment_and_no_descriptors(
    world: AppsWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINELOOP_TOKEN", "secret")
    with (tmp_path / "open").open("wb") as file:
        os.set_inheritable(file.fileno(), True)
        await world.pool.ensure(probe_app(), await world.session())
        pid = world.pool.pids["probe"]
        proc = Path("/proc") / str(pid)
        assert b"secret" not in (proc / "environ").read_bytes()
        assert sorted(entry.name for entry in (proc / "fd").iterdir()) == ["0", "1", "2"]


async def test_ids_of_a_call_are_the_same_after_a_second_delivery(world: AppsWorld) -> None:
    session = await world.session()
    outcomes: list[object] = []
    for _ in range(2):
        container = await world.pool.ensure(probe_app(), session)
        outcomes.append(await container.invoke(call(BAD, {"how": "ids"}, "call_7")))
        await world.pool.stop("probe", "ses_1")
    assert outcomes == [Completed({"done": "call_7/1 call_7/2"})] * 2


async def test_stopping_an_app_ends_its_process_and_its_calls(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    pid = world.pool.pids["probe"]
    waiting = asyncio.get_running_loop().create_task(container.invoke(call(BAD, {"how": "never"})))
    await container.invoke(call("probe.echo", {"text": "in"}, "call_in"))
    await world.pool.stop_app("probe")
    outcome = await waiting
    assert isinstance(outcome, Failed)
    assert outcome.reason == "crashed"
    assert world.pool.pids == {}
    assert world.heard.exits == []
    assert world.session_data.subscriptions == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    late = await container.invoke(call("probe.echo", {"text": "late"}, "call_late"))
    assert isinstance(late, Failed)


async def test_the_session_unused_for_longest_gives_way(world: AppsWorld) -> None:
    world.pool._max_sessions = 2  # pyright: ignore[reportPrivateUsage]
    for name in ("ses_1", "ses_2", "ses_3"):
        await world.pool.ensure(probe_app(), await world.session(name))
    assert world.heard.exits == [("ses_1", "idle")]
    assert world.pool.running("probe", "ses_1") is None
    assert world.pool.running("probe", "ses_3") is not None


async def test_a_second_call_of_one_id_while_the_first_runs_is_the_callers_mistake(world: AppsWorld) -> None:
    container = await world.pool.ensure(probe_app(), await world.session())
    first = asyncio.get_running_loop().create_task(container.invoke(call(BAD, {"how": "never"})))
    await container.invoke(call("probe.echo", {"text": "in"}, "call_in"))
    with pytest.raises(ValueError, match="already"):
        await container.invoke(call("probe.echo", {"text": "x"}))
    await container.cancel("call_1")
    await first


@pytest.mark.requirement("D5")
async def test_an_installed_app_never_runs_in_the_runtimes_own_conversation(world: AppsWorld) -> None:
    session = await world.session(conversation_id="runtime:global")
    with pytest.raises(ContainerFailed, match="belongs to the Runtime"):
        await world.pool.ensure(probe_app(), session)


async def test_a_start_that_breaks_is_a_failed_start_and_the_next_one_works(tmp_path: Path) -> None:
    faults = Faults(list(FaultSite), f"{FaultSite.DEVICE_CONTAINER_START}:raise")
    async with apps_world(tmp_path, faults=faults) as world:
        session = await world.session()
        with pytest.raises(ContainerFailed):
            await world.pool.ensure(probe_app(), session)
        assert (await world.pool.ensure(probe_app(), session)).alive


@pytest.mark.skipif(sys.platform == "win32", reason="there is no uvloop")
def test_containers_run_on_the_faster_loop_too(tmp_path: Path) -> None:
    import uvloop

    async def run() -> object:
        async with apps_world(tmp_path) as world:
            container = await world.pool.ensure(probe_app(), await world.session())
            outcome = await container.invoke(call("probe.add", {"amount": 3}))
            os.kill(world.pool.pids["probe"], signal.SIGKILL)
            await until(lambda: world.heard.exits == [("ses_1", "crashed")])
            return outcome

    assert uvloop.run(run()) == Completed({"total": 3, "revision": 1, "together": 1})
