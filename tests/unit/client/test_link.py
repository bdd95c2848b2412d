"""The link in virtual time: batches, breaks, silence, drains and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from lineloop.client.batches import ItemKind
from lineloop.client.link import Link, LinkParticipant, LinkState
from lineloop.client.transport import LinkConnection
from lineloop.kit.faults import Faults
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ConnectionLost, InvalidRequest, LoopError, Unauthorized
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.messages import Message
from lineloop.testing import FakeClock, until
from lineloop.testing.scripted import ScriptedLinkEnd, ScriptedTransport, wire_message


class Bench:
    """A link, its clock, and the connections it will get."""

    def __init__(self, *ends: ScriptedLinkEnd, faults: str = "") -> None:
        self.clock = FakeClock()
        self.transport = ScriptedTransport()
        self.transport.ends.extend(ends)
        self.link = Link(
            self.transport.open_link, self.clock, faults=Faults(FaultSite, faults), frames_in_flight=1
        )


@pytest.fixture
async def benches() -> AsyncGenerator[list[Bench], None]:
    made: list[Bench] = []
    yield made
    for bench in made:
        await bench.link.close()


async def started(benches: list[Bench], *ends: ScriptedLinkEnd, faults: str = "") -> Bench:
    bench = Bench(*ends, faults=faults)
    benches.append(bench)
    await bench.link.start()
    return bench


def say(link: Link, key: str) -> asyncio.Future[dict[str, Any]]:
    return link.submit(ItemKind.SPEAK, {"conversation_id": "c1", "key": key, "text": key})


def spoken(frame: dict[str, Any]) -> list[str]:
    return [item["key"] for item in frame["speak"]]


async def test_hello_tells_who_we_are_and_the_epoch(benches: list[Bench]) -> None:
    bench = await started(benches, ScriptedLinkEnd())
    assert bench.link.actor == Actor("operator", "echo")
    assert bench.link.state == LinkState(connected=True, epoch="e1")


async def test_speak_and_commit_return_after_the_acknowledgement(benches: list[Bench]) -> None:
    end = ScriptedLinkEnd(answering=True)
    bench = await started(benches, end)
    message = await bench.link.speak("c1", {"key": "k", "text": "hi"})
    await bench.link.commit("c1", 7)
    assert message.key == "k"
    assert end.sent == [
        {"id": 1, "speak": [{"conversation_id": "c1", "key": "k", "text": "hi"}]},
        {"id": 2, "commit": [{"conversation_id": "c1", "position": 7}]},
    ]


async def test_writes_of_one_turn_and_those_queued_in_flight_share_frames(benches: list[Bench]) -> None:
    end = ScriptedLinkEnd()
    bench = await started(benches, end)
    say(bench.link, "a")
    say(bench.link, "b")
    await until(lambda: end.sent)
    say(bench.link, "c")
    say(bench.link, "d")
    await bench.clock.settle()
    assert [spoken(frame) for frame in end.sent] == [["a", "b"]]
    end.answer(end.sent[0])
    await until(lambda: len(end.sent) == 2)
    assert spoken(end.sent[1]) == ["c", "d"]
    end.answer(end.sent[1])
    await bench.clock.settle()


async def test_what_was_not_acknowledged_is_sent_again_with_the_same_keys(benches: list[Bench]) -> None:
    first, second = ScriptedLinkEnd(), ScriptedLinkEnd(answering=True)
    bench = await started(benches, first, second)
    answers = [say(bench.link, "a"), say(bench.link, "b")]
    await until(lambda: first.sent)
    first.cut()
    await bench.clock.settle()
    answers.append(say(bench.link, "c"))
    await bench.clock.advance(1.0)
    results = await asyncio.gather(*answers)
    assert [result["message"]["key"] for result in results] == ["a", "b", "c"]
    assert spoken(second.sent[0]) == ["a", "b", "c"]


async def test_a_lost_acknowledgement_is_settled_by_repeating_the_key(benches: list[Bench]) -> None:
    first, second = ScriptedLinkEnd(), ScriptedLinkEnd(answering=True)
    bench = await started(benches, first, second, faults="client.link.send.after:lost_ack")
    answer = say(bench.link, "a")
    await until(lambda: first.closed)
    await bench.clock.advance(1.0)
    assert (await answer)["message"]["key"] == "a"
    assert spoken(first.sent[0]) == spoken(second.sent[0]) == ["a"]


async def test_a_failure_before_sending_reconnects_and_sends_once(benches: list[Bench]) -> None:
    first, second = ScriptedLinkEnd(), ScriptedLinkEnd(answering=True)
    bench = await started(benches, first, second, faults="client.link.send.before:raise")
    answer = say(bench.link, "a")
    await until(lambda: first.closed)
    await bench.clock.advance(1.0)
    await answer
    assert first.sent == []
    assert len(second.sent) == 1


async def test_a_duplicated_frame_gets_its_second_answer_passed_over(benches: list[Bench]) -> None:
    end = ScriptedLinkEnd(answering=True)
    bench = await started(benches, end, faults="client.link.send.after:duplicate")
    await say(bench.link, "a")
    await say(bench.link, "b")
    assert [spoken(frame) for frame in end.sent] == [["a"], ["a"], ["b"]]


async def test_a_cancelled_waiter_does_not_take_its_write_back(benches: list[Bench]) -> None:
    end = ScriptedLinkEnd()
    bench = await started(benches, end)
    task = asyncio.get_running_loop().create_task(bench.link.speak("c1", {"key": "a", "text": "a"}))
    await asyncio.sleep(0)
    task.cancel()
    await until(lambda: end.sent)
    assert spoken(end.sent[0]) == ["a"]
    end.answer(end.sent[0])
    await bench.clock.settle()
    assert bench.link.connected


async def test_a_silent_connection_is_given_up_and_replaced(benches: list[Bench]) -> None:
    first, second = ScriptedLinkEnd(), ScriptedLinkEnd()
    bench = await started(benches, first, second)
    await bench.clock.advance(30.0)
    first.push({"ping": {}})
    await bench.clock.advance(30.0)
    assert first.sent == [{"pong": {}}]
    assert not first.closed
    await bench.clock.advance(16.0)
    assert first.closed
    await until(lambda: bench.link.connected)


async def test_pushed_messages_reach_every_callback_and_a_failing_one_hurts_nobody(
    benches: list[Bench],
) -> None:
    end = ScriptedLinkEnd()
    bench = await started(benches, end)
    heard: list[str] = []

    def broken(messages: list[Message]) -> None:
        raise RuntimeError("a bug of the embedder")

    bench.link.on_deliver(broken)
    undo = bench.link.on_deliver(lambda messages: heard.extend(message.id for message in messages))
    end.push({"deliver": [wire_message(id="m1"), wire_message(id="m2")]})
    await until(lambda: heard == ["m1", "m2"])
    undo()
    end.push({"deliver": [wire_message(id="m3")]})
    await bench.clock.settle()
    assert heard == ["m1", "m2"]
    assert bench.link.connected


async def test_participants_and_states_are_told(benches: list[Bench]) -> None:
    first, second = ScriptedLinkEnd(), ScriptedLinkEnd()
    bench = Bench(first, second)
    benches.append(bench)
    participants: list[LinkParticipant] = []
    states: list[bool] = []
    bench.link.on_participants(participants.extend)
    bench.link.on_state(lambda state: states.append(state.connected))
    await bench.link.start()
    first.push({"participants": [{"conversation_id": "c1", "kind": "operator", "key": "assistant"}]})
    await until(lambda: participants)
    assert participants == [LinkParticipant("c1", Actor("operator", "assistant"))]
    departed: list[LinkParticipant] = []
    bench.link.on_departed(departed.extend)
    first.push({"departed": [{"conversation_id": "c1", "kind": "operator", "key": "assistant"}]})
    await until(lambda: departed)
    assert departed == participants
    first.cut()
    await bench.clock.advance(1.0)
    assert states == [True, False, True]


async def test_a_draining_server_gets_no_new_frames_and_is_left_when_all_is_acknowledged(
    benches: list[Bench],
) -> None:
    first, second = ScriptedLinkEnd(), ScriptedLinkEnd(answering=True)
    bench = await started(benches, first, second)
    before = say(bench.link, "before")
    await until(lambda: first.sent)
    first.push({"drain": {"retry_ms": 2000}})
    await bench.clock.settle()
    after = say(bench.link, "after")
    await bench.clock.settle()
    assert len(first.sent) == 1
    first.answer(first.sent[0])
    await before
    await until(lambda: first.closed)
    await bench.clock.advance(1.9)
    assert second.sent == []
    await bench.clock.advance(0.2)
    await after
    assert spoken(second.sent[0]) == ["after"]


async def test_a_refused_token_fails_the_start_with_its_code(benches: list[Bench]) -> None:
    bench = Bench(ScriptedLinkEnd(hello={"error": {"code": "unauthorized", "detail": "unknown token"}}))
    benches.append(bench)
    with pytest.raises(Unauthorized):
        await bench.link.start()
    with pytest.raises(Unauthorized):
        say(bench.link, "a")


async def test_another_protocol_version_is_refused(benches: list[Bench]) -> None:
    bench = Bench(ScriptedLinkEnd(hello={"hello": {"protocol": 2}}))
    benches.append(bench)
    with pytest.raises(LoopError) as caught:
        await bench.link.start()
    assert caught.value.code == "protocol_version_unsupported"


async def test_a_token_revoked_meanwhile_fails_what_waits_and_heals_when_it_is_taken_again(
    benches: list[Bench],
) -> None:
    refusal = ScriptedLinkEnd(hello={"error": {"code": "unauthorized", "detail": "revoked"}})
    bench = await started(benches, ScriptedLinkEnd(), refusal, ScriptedLinkEnd(answering=True))
    first = say(bench.link, "a")
    await bench.clock.settle()
    await _cut(bench)
    await bench.clock.advance(1.0)
    with pytest.raises(Unauthorized):
        await first
    with pytest.raises(Unauthorized):
        say(bench.link, "b")
    await bench.clock.advance(30.0)
    await until(lambda: bench.link.connected)
    await say(bench.link, "c")


async def _cut(bench: Bench) -> None:
    connection = bench.link._connection  # pyright: ignore[reportPrivateUsage]
    assert isinstance(connection, ScriptedLinkEnd)
    connection.cut()
    await bench.clock.settle()


async def test_writes_do_not_wait_for_ever_for_a_server_that_stays_away(benches: list[Bench]) -> None:
    bench = await started(benches, ScriptedLinkEnd())
    await _cut(bench)
    waiting = say(bench.link, "a")
    await bench.clock.advance(100.0)
    with pytest.raises(ConnectionLost):
        await waiting


async def test_start_keeps_trying_until_somebody_listens(benches: list[Bench]) -> None:
    bench = Bench()
    benches.append(bench)
    await bench.link.start(wait=False)
    await bench.clock.advance(20.0)
    assert not bench.link.connected
    bench.transport.ends.append(ScriptedLinkEnd())
    await bench.clock.advance(20.0)
    assert bench.link.connected


async def test_a_connection_that_never_says_hello_is_given_up(benches: list[Bench]) -> None:
    mute = ScriptedLinkEnd()
    await mute.receive()
    bench = Bench(mute, ScriptedLinkEnd())
    benches.append(bench)
    await bench.link.start(wait=False)
    await bench.clock.advance(11.0)
    assert mute.closed
    await until(lambda: bench.link.connected)


async def test_closing_fails_what_waits_and_everything_after(benches: list[Bench]) -> None:
    bench = await started(benches, ScriptedLinkEnd())
    waiting = say(bench.link, "a")
    await bench.link.close()
    with pytest.raises(ConnectionLost):
        await waiting
    with pytest.raises(ConnectionLost):
        say(bench.link, "b")
    with pytest.raises(ConnectionLost):
        await bench.link.start()


async def test_a_frame_the_server_refuses_as_a_whole_fails_its_items_and_keeps_the_link(
    benches: list[Bench],
) -> None:
    end = ScriptedLinkEnd()
    bench = await started(benches, end)
    answer = say(bench.link, "a")
    await until(lambda: end.sent)
    end.push({"id": end.sent[0]["id"], "error": {"code": "invalid_request", "detail": "no"}})
    with pytest.raises(LoopError) as caught:
        await answer
    assert caught.value.code == "invalid_request"
    assert bench.link.connected


async def test_an_item_that_is_no_json_is_refused_and_its_neighbours_are_sent(
    benches: list[Bench],
) -> None:
    end = ScriptedLinkEnd(answering=True)
    bench = await started(benches, end)
    good = say(bench.link, "a")
    bad = bench.link.submit(
        ItemKind.SPEAK, {"conversation_id": "c1", "key": "b", "meta": {"n": float("nan")}}
    )
    other = say(bench.link, "c")
    with pytest.raises(InvalidRequest):
        await bad
    await asyncio.gather(good, other)
    assert [spoken(frame) for frame in end.sent] == [["a", "c"]]


async def test_a_message_of_an_unknown_kind_holds_up_no_other(benches: list[Bench]) -> None:
    end = ScriptedLinkEnd()
    bench = await started(benches, end)
    heard: list[str] = []
    bench.link.on_deliver(lambda messages: heard.extend(message.id for message in messages))
    end.push({"deliver": [wire_message(purpose="of_the_future"), wire_message(id="m2")]})
    await until(lambda: heard == ["m2"])
    assert bench.link.connected


async def test_a_frame_that_breaks_the_protocol_starts_the_connection_afresh(benches: list[Bench]) -> None:
    first, second = ScriptedLinkEnd(), ScriptedLinkEnd()
    bench = await started(benches, first, second)
    first.push({"participants": [{}]})
    await until(lambda: first.closed)
    await bench.clock.advance(1.0)
    assert bench.link.connected


@pytest.mark.parametrize(
    "first", [{}, {"hello": 1}, {"hello": {"protocol": 1, "actor": {"kind": 1}}}, {"deliver": []}]
)
async def test_a_server_that_says_no_proper_hello_is_tried_again(
    benches: list[Bench], first: dict[str, Any]
) -> None:
    bench = Bench(ScriptedLinkEnd(hello=first), ScriptedLinkEnd())
    benches.append(bench)
    await bench.link.start(wait=False)
    await bench.clock.advance(1.0)
    assert bench.link.connected


def test_a_scripted_end_is_a_link_connection() -> None:
    connection: LinkConnection = ScriptedLinkEnd()
    assert connection is not None
