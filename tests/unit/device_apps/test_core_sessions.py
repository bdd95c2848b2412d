"""The small parts of core sessions: receipts, pace, sizes, titles, the connection's words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineloop.device.connection import Connection, ConnectionState
from lineloop.device.core_apps.actions import MAX_RECEIPTS, Receipts
from lineloop.device.core_apps.outgoing import Outgoing
from lineloop.device.core_apps.state_feed import StateFeed
from lineloop.device.core_apps.wire_size import (
    MAX_MESSAGE_BYTES,
    MAX_MESSAGES_BYTES,
    first_within,
    fitted,
    newest_within,
)
from lineloop.device.decide.person import TITLE_CHARS, is_addressable, title_from
from lineloop.device.models import AnnouncedModels, FoundServer, ModelInUse
from lineloop.kit.json_size import size_of_json
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LoopError, StorageUnavailable
from lineloop.testing import FakeClock, until
from lineloop.testing.scripted import wire_message

Json = dict[str, Any]

# ── receipts ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_action_is_carried_out_once_also_when_asked_twice_at_the_same_time() -> None:
    receipts, go = Receipts(), asyncio.Event()
    ran: list[int] = []

    async def action() -> Json:
        ran.append(1)
        await go.wait()
        return {"n": len(ran)}

    both = [asyncio.create_task(receipts.once("a", action)) for _ in range(2)]
    await until(lambda: ran)
    go.set()
    assert await asyncio.gather(*both) == [{"n": 1}, {"n": 1}]
    assert await receipts.once("a", action) == {"n": 1}


async def test_a_failed_action_may_be_repeated_and_who_waited_for_it_hears_of_it() -> None:
    receipts, go = Receipts(), asyncio.Event()

    async def fails() -> Json:
        await go.wait()
        raise LoopError("no")

    async def works() -> Json:
        return {"ok": True}

    both = [asyncio.create_task(receipts.once("a", fails)) for _ in range(2)]
    await asyncio.gather(*(until(lambda: True) for _ in range(3)))
    go.set()
    for task in both:
        with pytest.raises(LoopError):
            await task
    assert await receipts.once("a", works) == {"ok": True}


async def test_old_receipts_are_forgotten() -> None:
    receipts = Receipts()
    ran: list[int] = []

    async def action() -> Json:
        ran.append(1)
        return {}

    for number in range(MAX_RECEIPTS + 2):
        await receipts.once(f"a{number}", action)
    await receipts.once("a0", action)
    assert len(ran) == MAX_RECEIPTS + 3


# ── pace ────────────────────────────────────────────────────────────────────────────────────────────────────


class Numbers:
    """A feed that tells the newest number."""

    def __init__(self) -> None:
        self.number = 0
        self.breaks: BaseException | None = None
        self.failures = 0

    async def frames(self) -> AsyncGenerator[str, None]:
        if self.breaks is not None:
            raise self.breaks
        yield str(self.number)

    def failed(self) -> None:
        self.failures += 1


async def test_a_slow_page_gets_the_newest_and_a_closed_one_nothing() -> None:
    sent: list[str] = []
    room = asyncio.Event()
    async with Tasks("test") as tasks:

        async def drained() -> None:
            await room.wait()

        outgoing, feed = Outgoing(sent.append, tasks, drained), Numbers()
        for number in range(100):
            feed.number = number
            outgoing.mark(feed)
        room.set()
        await until(lambda: sent == ["99"])
        room.clear()
        outgoing.mark(feed)
        outgoing.close()
        outgoing.mark(feed)
        room.set()
        await asyncio.gather(*(until(lambda: True) for _ in range(5)))
        assert sent == ["99"]


@pytest.mark.parametrize("error", [StorageUnavailable("away"), ZeroDivisionError("a defect")])
async def test_a_feed_that_fails_stops_no_other_and_tells_with_its_next_news(error: Exception) -> None:
    sent: list[str] = []
    async with Tasks("test") as tasks:
        outgoing, bad, good = Outgoing(sent.append, tasks), Numbers(), Numbers()
        bad.breaks = error
        outgoing.mark(bad)
        outgoing.mark(good)
        await until(lambda: sent == ["0"])
        assert bad.failures == 1
        bad.breaks, bad.number = None, 7
        outgoing.mark(bad)
        await until(lambda: sent == ["0", "7"])
        outgoing.close()


async def test_a_state_is_told_only_when_it_differs() -> None:
    state: Json = {"n": 1}

    async def compose() -> Json:
        return dict(state)

    feed = StateFeed("s", compose)

    async def frames() -> int:
        return len([frame async for frame in feed.frames()])

    assert [await frames(), await frames()] == [1, 0]
    state["n"] = 2
    assert [await frames(), await frames()] == [1, 0]
    feed.failed()
    assert await frames() == 1


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────


def message(*blocks: Json, **meta: Any) -> Json:
    content = {"version": "1.1", "biz": "chat", "meta": meta, "blocks": list(blocks)}
    return wire_message(content=content)


@pytest.mark.parametrize(
    "wire",
    [
        message({"id": "t", "type": "text", "content": "x" * 2_000_000}),
        message({"id": "t", "type": "text", "content": "\x01" * 2_000_000}),
        message({"id": "t", "type": "text", "content": "中" * 2_000_000}),
        message(*({"id": f"t{n}", "type": "text", "content": "x" * 400_000} for n in range(9))),
        message({"id": "r", "type": "result", "value": ["x" * 100] * 20_000}),
        message({"id": "t", "type": "text", "content": "x"}, much="x" * 2_000_000),
    ],
)
def test_a_message_too_large_for_a_frame_is_shortened_and_says_so(wire: Json) -> None:
    shown, size = fitted(wire)
    assert shown["cut"] is True
    assert size == size_of_json(shown) <= MAX_MESSAGE_BYTES
    assert {name: shown[name] for name in wire if name != "content"} == {
        name: wire[name] for name in wire if name != "content"
    }
    assert "cut" not in wire


def test_messages_that_do_not_fit_together_leave_the_oldest_out() -> None:
    small = message({"id": "t", "type": "text", "content": "x"})
    assert fitted(small) == (small, size_of_json(small))
    large = message({"id": "t", "type": "text", "content": "x" * 400_000})
    taken, room = newest_within([small, large, large, large, small])
    assert taken == [large, large, small]
    assert 0 <= room < MAX_MESSAGES_BYTES
    assert first_within([small] * 5, size_of_json(small) * 2 + 2) == [small, small]


# ── words ───────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text())
def test_a_title_is_one_line_of_bounded_length(text: str) -> None:
    title = title_from(text)
    assert len(title) <= TITLE_CHARS
    assert title == " ".join(title.split())


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        (" \n ", ""),
        ("hello\n\nthere", "hello there"),
        ("word " * 30, "word " * 10 + "word…"),
        ("x" * 100, "x" * 59 + "…"),
    ],
)
def test_titles(text: str, title: str) -> None:
    assert title_from(text) == title


@pytest.mark.parametrize(
    ("actor", "addressable"),
    [
        ("operator/echo", True),
        ("operator/echo/role", False),
        ("harness/demo", True),
        ("harness/run-run_1", False),
        ("runtime/laptop", False),
        ("user/local", False),
    ],
)
def test_people_speak_to_operators_and_harnesses(actor: str, addressable: bool) -> None:
    assert is_addressable(Actor.parse(actor)) is addressable


# ── the connection ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_connection_is_online_only_when_nothing_is_missing() -> None:
    clock = FakeClock()
    connection = Connection(clock)
    waiting = [0]
    connection.count(lambda: waiting[0])
    told: list[tuple[str, int]] = []
    stop = connection.subscribe(lambda: told.append((connection.now()["state"], connection.now()["waiting"])))
    connection.streams_are(behind=True)
    await clock.advance(1)
    connection.link_is(ConnectionState.ONLINE)
    connection.streams_are(behind=False)
    connection.streams_are(behind=False)
    waiting[0] = 1
    connection.waiting_changed()
    connection.link_is(ConnectionState.OFFLINE)
    waiting[0] = 2
    connection.waiting_changed()
    connection.link_is(ConnectionState.ONLINE)
    waiting[0] = 0
    connection.waiting_changed()
    connection.waiting_changed()
    stop()
    connection.link_is(ConnectionState.OFFLINE)
    assert told == [
        ("catching_up", 0),
        ("online", 0),
        ("offline", 1),
        ("offline", 2),
        ("online", 2),
        ("online", 0),
    ]


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────


class OneModel:
    def __init__(self) -> None:
        self.target = "demo"

    def current(self) -> ModelInUse:
        return ModelInUse(self.target, self.target, chosen=self.target != "demo")

    async def find(self) -> list[FoundServer]:
        return []

    async def choose(self, target: str, key: str | None = None) -> ModelInUse:
        if key == "wrong":
            raise LoopError("no")
        self.target = target
        return self.current()


async def test_a_chosen_model_is_announced_and_a_refused_one_is_not() -> None:
    told: list[str] = []
    models = AnnouncedModels(OneModel(), lambda: told.append(models.current().target))
    assert await models.find() == []
    with pytest.raises(LoopError):
        await models.choose("openai:x", "wrong")
    assert told == []
    assert (await models.choose("ollama:y")).chosen
    assert told == ["ollama:y"]
