"""Streams against a scripted server: what was lost is noticed, what is refused is not forgotten."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.device_apps.apps_world import apps_world

from lineloop.client.loop import Loop
from lineloop.client.transport import ServerSentEvent
from lineloop.device.foundation import Foundation
from lineloop.device.person import streams as module
from lineloop.device.person.streams import Arrived, BeganAnew, Changed, Patched, Streams
from lineloop.kit import json
from lineloop.protocol.content import content_text
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import ConnectionLost, LoopError, NotFound
from lineloop.testing import FakeClock, until
from lineloop.testing.scripted import ScriptedTransport, wire_message

Json = dict[str, Any]


def event(kind: str, data: Any, event_id: str = "1") -> ServerSentEvent:
    return ServerSentEvent(event=kind, data=json.dumps(data), id=event_id)


def told(**changes: Any) -> ServerSentEvent:
    return event("message", {"message": wire_message(**changes)})


def ping(**ordinals: int) -> ServerSentEvent:
    return event("ping", {"ordinals": ordinals})


class Heard:
    """What a listener was told, and what was kept before that."""

    def __init__(self) -> None:
        self.events: list[Changed | Patched | BeganAnew] = []
        self.kept: list[str] = []
        self.together: list[int] = []
        self.moved: list[bool] = []

    async def keep(self, root_id: str, arrived: Sequence[Arrived]) -> None:
        self.together.append(len(arrived))
        for message, event_id in arrived:
            self.kept.append(f"{root_id}/{message.id}/{message.revision}/{event_id}")

    @property
    def texts(self) -> list[str]:
        return [content_text(one.message["content"]) for one in self.events if isinstance(one, Changed)]


@asynccontextmanager
async def streams_of(
    folder: Path, transport: ScriptedTransport, heard: Heard
) -> AsyncGenerator[tuple[Streams, FakeClock]]:
    clock = FakeClock()
    async with apps_world(folder, clock=clock) as world:
        foundation: Foundation = world.foundation
        loop = Loop(transport, clock=clock)
        streams = Streams(
            foundation,
            transport,
            loop,
            keep=heard.keep,
            on_moved=lambda: heard.moved.append(streams.behind),
        )
        streams.start()
        try:
            yield streams, clock
        finally:
            await streams.close()


async def test_the_second_ping_of_a_connection_says_that_everything_is_there(tmp_path: Path) -> None:
    transport, heard = ScriptedTransport(), Heard()
    transport.streams.append([ping(c1=1), told(), ping(c1=1), ConnectionLost("cut")])
    async with streams_of(tmp_path, transport, heard) as (streams, _):
        streams.watch("c1", heard.events.append)
        assert streams.behind
        await until(lambda: len(heard.moved) >= 3)
        assert heard.moved[:3] == [True, False, True]
        assert heard.kept == ["c1/m1/0/1"]
        assert heard.texts == ["hello"]


async def test_what_two_pings_name_and_nothing_brought_is_asked_for_again(tmp_path: Path) -> None:
    transport, heard = ScriptedTransport(), Heard()
    start = [ping(c1=1), told(), ping(c1=1)]
    late = told(id="m2", ordinal=2, text="lost")
    transport.streams.append([*start, ping(c1=2), ping(c1=2), ConnectionLost("never read")])
    transport.streams.append([ping(c1=2), late, ping(c1=2), ping(c1=2), ping(c1=2), told(text="end")])
    async with streams_of(tmp_path, transport, heard) as (streams, clock):
        streams.watch("c1", heard.events.append)
        await until(lambda: len(transport.resumed_from) == 1)
        await clock.advance(1)
        await until(lambda: heard.texts == ["hello", "lost", "end"])


async def test_a_gap_between_patches_is_closed_with_the_whole_message(tmp_path: Path) -> None:
    transport, heard = ScriptedTransport(), Heard()
    opened = told(status="streaming", offset=None)
    patch = {"op": "append", "seq": 1, "block": {"id": "text", "content": "!"}, "mask": "block.content"}
    lost = {**patch, "seq": 5}
    transport.streams.append(
        [
            opened,
            event("patch", {"message_id": "m1", "patch": patch}),
            event("patch", {"message_id": "m1", "patch": patch}),
            event("patch", {"message_id": "m1", "patch": lost}),
        ]
    )
    transport.answers.append(lambda _: wire_message(status="streaming", revision=5, text="whole"))
    async with streams_of(tmp_path, transport, heard) as (streams, _):
        streams.watch("c1", heard.events.append)
        await until(lambda: heard.texts == ["hello", "whole"])
        patched = [one for one in heard.events if isinstance(one, Patched)]
        assert [(one.revision, one.patch["seq"]) for one in patched] == [(1, 1)]
        assert streams.open_messages("c1")["m1"]["revision"] == 5
        assert [one.path for one in transport.asked] == ["/v1/messages/m1"]


async def test_a_message_that_has_ended_is_no_longer_open_and_an_older_state_is_not_told(
    tmp_path: Path,
) -> None:
    transport, heard = ScriptedTransport(), Heard()
    transport.streams.append(
        [
            told(status="streaming", revision=3, offset=None, text="newer"),
            told(status="streaming", revision=2, offset=None, text="older"),
            told(revision=4, text="ended"),
        ]
    )
    async with streams_of(tmp_path, transport, heard) as (streams, _):
        streams.watch("c1", heard.events.append)
        await until(lambda: heard.texts == ["newer", "ended"])
        assert streams.open_messages("c1") == {}
        assert streams.open_message("m1") is None


async def test_traffic_between_programs_is_kept_in_place_and_told_to_nobody(tmp_path: Path) -> None:
    transport, heard = ScriptedTransport(), Heard()
    transport.streams.append([told(purpose="envelope"), told(id="m2", text="shown")])
    async with streams_of(tmp_path, transport, heard) as (streams, _):
        streams.watch("c1", heard.events.append)
        await until(lambda: heard.texts == ["shown"])
        assert heard.kept == ["c1/m1/0/1", "c1/m2/0/1"]


async def test_a_refused_stream_is_let_go_unless_somebody_watches(tmp_path: Path) -> None:
    transport, heard = ScriptedTransport(), Heard()
    gone = NotFound("no such conversation", code=ErrorCode.CONVERSATION_NOT_FOUND)
    refused: list[ServerSentEvent | LoopError] = [gone]
    transport.streams.extend([refused, refused, [told(text="granted")]])
    async with streams_of(tmp_path, transport, heard) as (streams, clock):
        streams.follow("c1")
        await until(lambda: not streams.follows("c1"))
        streams.watch("c2", heard.events.append)
        await until(lambda: len(transport.resumed_from) == 2)
        assert streams.follows("c2")
        await clock.settle()
        assert not streams.behind
        await clock.advance(1)
        await until(lambda: heard.texts == ["granted"])


async def test_of_too_many_conversations_the_one_longest_unused_and_unwatched_gives_way(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(module, "MAX_FOLLOWED", 3)
    transport, heard = ScriptedTransport(), Heard()
    async with streams_of(tmp_path, transport, heard) as (streams, _):
        streams.watch("c1", heard.events.append)
        assert streams.follow("c2")
        assert streams.follow("c3")
        assert not streams.follow("c4")
        assert streams.follow("c2")
        streams.watch("c4", heard.events.append)
        assert [streams.follows(one) for one in ("c1", "c2", "c3", "c4")] == [True, True, False, True]


async def test_messages_that_come_together_are_kept_together_and_told_in_order(tmp_path: Path) -> None:
    transport, heard = ScriptedTransport(), Heard()
    burst = [told(id=f"m{number}", ordinal=number) for number in range(1, 301)]
    transport.streams.append([*burst, ping(c1=300), ConnectionLost("cut")])
    async with streams_of(tmp_path, transport, heard) as (streams, _):
        streams.watch("c1", heard.events.append)
        await until(lambda: len(heard.events) == 300)
    told_ids = [one.message["id"] for one in heard.events if isinstance(one, Changed)]
    assert told_ids == [f"m{number}" for number in range(1, 301)]
    assert len(heard.together) < 10
