"""Hints over a Redis Stream of bounded length (docs/decisions/0025).

Decides the stream's name, its length and life, and where reading goes on. A stream, not a channel: a replica
that is slow for a moment finds what it did not read, and Redis holds no buffer that grows with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from lineloop.server.wakeup.relay import CarrierLost

MAX_ENTRIES = 1_000
MAX_TEXT_BYTES = 32 * 1024
LIFE_SECONDS = 3600
BLOCK_MS = 2_000
ANSWER_SECONDS = 2.0
READ_ENTRIES = 100
_FIELD = b"hints"
_BEGINNING = b"0-0"


class RedisCarrier:
    """`scope` names the database whose replicas hear each other. Raises ValueError for an unusable `url`."""

    name = "redis"
    max_text_bytes = MAX_TEXT_BYTES

    def __init__(self, url: str, scope: str) -> None:
        self._stream = f"lineloop:{scope}:hints".encode()
        # A pause in the middle of a blocking read is no failure; one of an answer is.
        self._writer = _client(url, ANSWER_SECONDS)
        self._reader = _client(url, BLOCK_MS / 1000 + ANSWER_SECONDS)
        self._last = _BEGINNING

    async def open(self) -> None:
        try:
            self._last = await self._newest()
        except (RedisError, OSError) as error:
            raise CarrierLost(_reason(error)) from error

    async def send(self, texts: Sequence[str]) -> None:
        try:
            async with self._writer.pipeline(transaction=False) as pipeline:
                for text in texts:
                    pipeline.xadd(self._stream, {_FIELD: text}, maxlen=MAX_ENTRIES, approximate=True)
                pipeline.expire(self._stream, LIFE_SECONDS)
                await pipeline.execute()
        except (RedisError, OSError) as error:
            raise CarrierLost(_reason(error)) from error

    async def receive(self) -> Sequence[str]:
        try:
            answer: Any = await self._reader.xread(
                {self._stream: self._last}, count=READ_ENTRIES, block=BLOCK_MS
            )
            if not answer:
                await self._look_where_it_ends()
                return ()
        except (RedisError, OSError) as error:
            raise CarrierLost(_reason(error)) from error
        entries: list[tuple[bytes, dict[bytes, bytes]]] = answer[0][1]
        self._last = entries[-1][0]
        return [fields[_FIELD].decode(errors="replace") for _, fields in entries if _FIELD in fields]

    async def close(self) -> None:
        for client in (self._writer, self._reader):
            try:
                await client.aclose()
            except (RedisError, OSError):
                continue

    async def _look_where_it_ends(self) -> None:
        """A stream that was flushed begins anew, by a clock that may be behind: then so does reading."""
        newest = await self._newest()
        if _order(newest) < _order(self._last):
            self._last = _BEGINNING

    async def _newest(self) -> bytes:
        entries: Any = await self._writer.xrevrange(self._stream, count=1)
        return entries[0][0] if entries else _BEGINNING


def _client(url: str, timeout_seconds: float) -> Redis:
    return Redis.from_url(
        url,
        protocol=2,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def _order(entry_id: bytes) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number)


def _reason(error: BaseException) -> str:
    """What went wrong, without the address: it may hold a password."""
    return type(error).__name__
