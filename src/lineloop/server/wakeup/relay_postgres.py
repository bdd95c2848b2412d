"""Hints over PostgreSQL's LISTEN and NOTIFY (docs/decisions/0025).

Decides the channel's name. One connection listens, another speaks: after the commits that the hints tell of,
never inside them, because PostgreSQL lets transactions that notify commit one after the other only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from lineloop.kit.postgres.connecting import UnusableServer, parsed
from lineloop.server.wakeup.relay import CarrierLost

# A payload is shorter than 8000 bytes.
MAX_TEXT_BYTES = 7_900
ANSWER_SECONDS = 2.0
LISTEN_SECONDS = 2.0
_NOTIFY = (
    "SELECT pg_notify(%s, text) FROM unnest(%s::text[]) WITH ORDINALITY AS told (text, place) ORDER BY place"
)

Connection = psycopg.AsyncConnection[Any]


class PostgresCarrier:
    """`scope` names the database whose replicas hear each other. Raises UnusableServer for a bad `url`."""

    name = "postgres"
    max_text_bytes = MAX_TEXT_BYTES

    def __init__(self, url: str, scope: str) -> None:
        self._conninfo = make_conninfo(**parsed(url))
        self._channel = f"lineloop_{scope}"
        self._listener: Connection | None = None
        self._speaker: Connection | None = None

    async def open(self) -> None:
        try:
            async with asyncio.timeout(2 * ANSWER_SECONDS):
                self._listener = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
                self._speaker = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
                await self._listener.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except (psycopg.Error, OSError, TimeoutError, UnusableServer) as error:
            raise CarrierLost(_reason(error)) from error

    async def send(self, texts: Sequence[str]) -> None:
        if self._speaker is None:
            raise CarrierLost("closed")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._speaker.execute(_NOTIFY, (self._channel, list(texts)))
        except (psycopg.Error, OSError, TimeoutError) as error:
            raise CarrierLost(_reason(error)) from error

    async def receive(self) -> Sequence[str]:
        if self._listener is None:
            raise CarrierLost("closed")
        try:
            told = self._listener.notifies(timeout=LISTEN_SECONDS, stop_after=1)
            return [one.payload async for one in told]
        except (psycopg.Error, OSError) as error:
            raise CarrierLost(_reason(error)) from error

    async def close(self) -> None:
        listener, speaker = self._listener, self._speaker
        self._listener = self._speaker = None
        for connection in (listener, speaker):
            if connection is not None:
                await connection.close()


def _reason(error: BaseException) -> str:
    """What went wrong, without the address: it may hold a password."""
    return type(error).__name__
