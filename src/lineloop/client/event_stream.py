"""Reading streams: lines from the parts of a body, server-sent events from lines (WHATWG HTML §9.2.6).

Decides where a line and an event end. Leaves to the transports how parts arrive, and to `sse` what an event
means.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator

from lineloop.client.transport import ServerSentEvent
from lineloop.protocol.errors import ConnectionLost

EVENT_STREAM = "text/event-stream"
EPOCH_HEADER = "x-lineloop-epoch"
# Between an epoch and an id: neither has it.
_MARK = "@"

# A carriage return at the very end may be half of a line end, so it waits for the next part.
_LINE_END = re.compile(rb"\r\n|\n|\r(?=.)", re.DOTALL)
_BYTE_ORDER_MARK = "\ufeff"


def check_event_stream(content_type: str | None) -> None:
    """Raises ConnectionLost for an answer that is no event stream: something else than a server gave it."""
    if (content_type or "").partition(";")[0].strip().lower() != EVENT_STREAM:
        raise ConnectionLost(f"the answer is no event stream but {content_type or 'nothing known'}")


async def lines_of(parts: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Whole lines without their ends; what follows the last end is a line too when it is not empty."""
    rest = b""
    async for part in parts:
        *lines, rest = _LINE_END.split(rest + part)
        for line in lines:
            yield line.decode(errors="replace")
    if rest := rest.removesuffix(b"\r"):
        yield rest.decode(errors="replace")


def resume_headers(last_event_id: str | None) -> dict[str, str]:
    """What asks for what follows an id of `events_of`, in the life of the database that gave it."""
    if last_event_id is None:
        return {}
    epoch, _, given = last_event_id.rpartition(_MARK)
    return {"last-event-id": given, **({EPOCH_HEADER: epoch} if epoch else {})}


def epoch_of(event_id: str | None) -> str:
    """The life of the database that an id of `events_of` comes from; "" when it was not named."""
    return (event_id or "").rpartition(_MARK)[0]


async def events_of(
    parts: AsyncIterator[bytes], epoch: str | None = None
) -> AsyncGenerator[ServerSentEvent, None]:
    """Events that have data; comments, unknown fields and an event that was cut off are passed over.

    Ids get the `epoch` of the answer in front, so that whoever keeps an id keeps that, too.
    """
    event, data, last_id, first = "", list[str](), "", True
    mark = f"{epoch}{_MARK}" if epoch else ""
    async for raw in lines_of(parts):
        line, first = raw.removeprefix(_BYTE_ORDER_MARK) if first else raw, False
        if not line:
            if data:
                yield ServerSentEvent(event or "message", "\n".join(data), mark + last_id if last_id else "")
            event, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            data.append(value)
        elif name == "event":
            event = value
        elif name == "id" and "\0" not in value:
            last_id = value
