"""Lines and events come out the same however a body is cut into parts."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from lineloop.client.event_stream import check_event_stream, events_of, lines_of
from lineloop.client.transport import ServerSentEvent
from lineloop.protocol.errors import ConnectionLost

STREAM = (
    "\ufeff: hello\r\n\r\nid: 7\revent: message\rdata: eins\u2028ü\rdata:  zwei\r\r"
    "retry: 5\nid: bad\0\ndata\n\nevent: nothing\n\ndata: last\r\n\r\ndata: cut off"
).encode()
EVENTS = [
    ServerSentEvent("message", "eins\u2028ü\n zwei", "7"),
    ServerSentEvent("message", "", "7"),
    ServerSentEvent("message", "last", "7"),
]


async def cut(body: bytes, size: int) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_events_are_read_by_the_rules_of_the_standard(size: int) -> None:
    assert [event async for event in events_of(cut(STREAM, size))] == EVENTS


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
async def test_a_line_ends_at_line_ends_only_and_the_last_needs_none(size: int) -> None:
    body = '{"a":"\u2028"}\r\n\n{"b":1}'.encode()
    assert [line async for line in lines_of(cut(body, size))] == ['{"a":"\u2028"}', "", '{"b":1}']


@pytest.mark.parametrize("kind", [None, "", "text/html", "application/json"])
def test_what_is_no_event_stream_is_a_lost_connection(kind: str | None) -> None:
    with pytest.raises(ConnectionLost):
        check_event_stream(kind)
    check_event_stream("Text/Event-Stream; charset=utf-8")
