"""The relay between replicas, on a carrier that breaks when it is told to."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.services.memory_carrier import MemoryCarrier, Wire

from lineloop.kit.tasks import Tasks
from lineloop.server.wakeup.bus import (
    Bus,
    ConsumersChanged,
    Hint,
    MessageChanged,
    ParticipantJoined,
    PatchesAppended,
    QuestionClosed,
    Recipient,
    Stopping,
)
from lineloop.server.wakeup.relay import Relay
from lineloop.server.wakeup.relay_hints import (
    MAX_WAITING_HINTS,
    Bundle,
    MessageMoved,
    PatchesLogged,
    RemoteHint,
    parse_bundle,
)
from lineloop.testing import FakeClock, until

JOINED = ParticipantJoined("con_1", "operator", "echo", ["desk"])
CLOSED = QuestionClosed("msg_q", "con_1", ("operator", "echo"))
CHANGED = MessageChanged("msg_1", "con_2", "con_1", 7, 3, None, [Recipient("operator", "echo", 2)])


def patch(seq: int, message: str = "msg_1") -> PatchesAppended:
    return PatchesAppended(message, "con_1", seq, ['{"never":"sent"}'])


@dataclass
class Replica:
    relay: Relay
    carrier: MemoryCarrier
    bus: Bus
    heard: list[RemoteHint] = field(default_factory=list[RemoteHint])
    restored: list[int] = field(default_factory=list[int])


@dataclass
class Two:
    clock: FakeClock
    wire: Wire
    a: Replica
    b: Replica


def replica(wire: Wire, clock: FakeClock, origin: str) -> Replica:
    heard: list[RemoteHint] = []
    restored: list[int] = []

    def hear(hints: Sequence[RemoteHint]) -> None:
        heard.extend(hints)

    carrier = MemoryCarrier(wire)
    relay = Relay(carrier, clock, origin, hear=hear, restored=lambda: restored.append(1))
    bus = Bus()
    bus.relay_to(relay.send)
    return Replica(relay, carrier, bus, heard, restored)


@asynccontextmanager
async def two() -> AsyncGenerator[Two]:
    clock, wire = FakeClock(), Wire()
    both = Two(clock, wire, replica(wire, clock, "a"), replica(wire, clock, "b"))
    async with Tasks("replicas") as tasks:
        tasks.spawn(both.a.relay.run(), name="a")
        tasks.spawn(both.b.relay.run(), name="b")
        await until(lambda: both.a.relay.figures.connected and both.b.relay.figures.connected)
        yield both


async def test_what_one_replica_publishes_the_other_hears_and_itself_does_not() -> None:
    async with two() as both:
        for hint in (patch(1), CHANGED, JOINED, CLOSED):
            both.a.bus.publish(hint)
        await until(lambda: len(both.b.heard) == 4)
        assert both.b.heard == [
            PatchesLogged("msg_1", "con_1", 1, 1),
            MessageMoved("msg_1", "con_2", "con_1", 7, 3, [("operator", "echo", 2)]),
            JOINED,
            CLOSED,
        ]
        assert both.a.heard == []
        assert "never" not in "".join(both.wire.sent)


async def test_what_concerns_this_process_only_stays_here() -> None:
    async with two() as both:
        both.a.bus.publish(ConsumersChanged("con_1"))
        both.a.bus.publish(Stopping())
        both.a.bus.tell(patch(1))
        both.a.bus.publish(JOINED)
        await until(lambda: both.b.heard)
        assert both.b.heard == [JOINED]


async def test_while_the_carrier_is_slow_nobody_waits_and_patches_of_a_message_become_one_hint() -> None:
    async with two() as both:
        both.wire.held = True
        both.a.bus.publish(patch(1))
        await until(lambda: both.wire.sent)
        for seq in range(2, 5_000):
            both.a.bus.publish(patch(seq))
        both.wire.held = False
        both.a.carrier.wake.set()
        await until(lambda: len(both.b.heard) == 2)
        assert both.b.heard[1] == PatchesLogged("msg_1", "con_1", 2, 4_999)
        assert len(both.wire.sent) == 2


async def test_a_break_costs_what_was_said_meanwhile_and_both_come_back_and_look() -> None:
    async with two() as both:
        both.wire.cut()
        await until(lambda: not both.a.relay.figures.connected and not both.b.relay.figures.connected)
        both.a.bus.publish(JOINED)
        await both.clock.advance(20)
        assert both.a.carrier.opened == 1
        both.wire.mend()
        await both.clock.advance(6)
        assert (both.a.relay.figures.connected, both.b.relay.figures.connected) == (True, True)
        assert len(both.b.restored) == 2
        both.a.bus.publish(CLOSED)
        await until(lambda: both.b.heard)
        assert both.b.heard == [CLOSED]
        assert both.a.relay.figures.dropped == 1


async def test_a_broken_carrier_is_called_with_growing_pauses() -> None:
    clock, wire = FakeClock(), Wire(up=False)
    one = replica(wire, clock, "a")
    async with Tasks("replicas") as tasks:
        tasks.spawn(one.relay.run(), name="a")
        await clock.advance(60)
        assert 10 < one.relay.figures.breaks < 30


async def test_garbage_on_the_carrier_is_passed_over() -> None:
    async with two() as both:
        broken = ('{"o":"z"}', '{"p":[[1]]}', '{"o":"z","p":[[1]]}', '{"o":"z","p":7}')
        for text in ("", "x", "[]", *broken, '{"o":"z","p":[["m","r","1",2]]}', '{"o":1}'):
            await both.b.carrier.send([text])
        both.a.bus.publish(JOINED)
        await until(lambda: both.b.heard)
        assert both.b.heard == [JOINED]
        assert both.b.relay.figures.connected


async def test_a_hint_of_a_later_version_is_passed_over() -> None:
    assert parse_bundle('{"o":"z","new":[["x"]],"q":[["m","r","user","u"]]}') == (
        "z",
        [QuestionClosed("m", "r", ("user", "u"))],
    )


@pytest.mark.parametrize("max_bytes", [400, 8_000])
def test_texts_keep_within_their_limit_and_lose_nothing(max_bytes: int) -> None:
    bundle = Bundle()
    hints: list[Hint] = [patch(1, f"msg_{number}") for number in range(200)]
    hints += [JOINED, CLOSED, CHANGED]
    assert all(bundle.add(hint) for hint in hints)
    texts = list(bundle.texts("a", max_bytes))
    assert max(len(text.encode()) for text in texts) <= max_bytes
    assert sum(len(parse_bundle(text)[1]) for text in texts) == len(hints) == len(bundle)


def test_what_waits_is_bounded() -> None:
    bundle = Bundle()
    taken = [bundle.add(patch(1, f"msg_{number}")) for number in range(MAX_WAITING_HINTS + 5)]
    assert taken.count(True) == len(bundle) == MAX_WAITING_HINTS
    assert bundle.add(patch(2, "msg_1"))
    assert not bundle.add(JOINED)


def test_a_message_to_very_many_is_told_without_most_of_them() -> None:
    crowd = [Recipient("operator", f"op-{number}", 0) for number in range(5_000)]
    bundle = Bundle()
    bundle.add(MessageChanged("msg_1", "con_1", "con_1", 1, 1, None, crowd))
    (text,) = bundle.texts("a", 8_000)
    assert 0 < len(json.loads(text)["m"][0][5]) < 5_000
