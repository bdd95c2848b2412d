"""Being listed as an operator or a harness: registered once, renewed at a third of the lease.

Decides when to renew and that a failed renewal is tried again soon. What a lease means (being listed, never a
lock) is the server's (spec/protocol.md §8.6).
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from lineloop.client.retry import Retry
from lineloop.client.transport import Transport
from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LoopError
from lineloop.protocol.paths import actor_segments

DEFAULT_LEASE_SECONDS = 30.0

_log = structlog.get_logger("lineloop.presence")


@record
class Registration:
    """A kept registration. Closing it stops the renewals; the entry disappears when its lease is over."""

    actor: Actor
    renewals: asyncio.Task[None]

    def close(self) -> None:
        self.renewals.cancel()


class Presence:
    """The registrations of one actor kind."""

    def __init__(self, kind: str, transport: Transport, retry: Retry, tasks: Tasks) -> None:
        self._kind = kind
        self._transport = transport
        self._retry = retry
        self._tasks = tasks

    async def register(
        self,
        key: str,
        *,
        display_name: str,
        description: str = "",
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
    ) -> Registration:
        """List this actor as present, and keep renewing until closed, whoever called [write].

        Returns after the first registration; `lease_seconds`: 1 s to a day. Raises LoopError `forbidden`,
        InvalidRequest. Spec: spec/protocol.md §8.6.
        """
        actor = Actor(self._kind, key)
        body: dict[str, Any] = {"display_name": display_name, "lease_ms": round(lease_seconds * 1000)}
        if description:
            body["description"] = description
        await self._retry.run(lambda: self._put(actor, body))
        renewals = self._tasks.spawn(self._renew(actor, body, lease_seconds / 3), name=f"renew {actor}")
        return Registration(actor, renewals)

    async def list(self) -> list[dict[str, Any]]:
        """The live operators and harnesses of the server, of every kind [read].

        Raises Forbidden. Spec: spec/protocol.md §8.6.
        """
        answer = await self._retry.run(lambda: self._transport.request("GET", "/v1/actors"))
        return answer.body["items"]

    async def _put(self, actor: Actor, body: dict[str, Any]) -> None:
        await self._transport.request("PUT", f"/v1/actors/{actor_segments(actor)}", json=body)

    async def _renew(self, actor: Actor, body: dict[str, Any], pause_seconds: float) -> None:
        while True:
            await self._retry.clock.sleep(pause_seconds)
            try:
                await self._retry.run(lambda: self._put(actor, body))
            except LoopError as error:
                # The next renewal comes before the lease is over; one lost renewal hides nobody.
                _log.warning("registration_not_renewed", actor=str(actor), code=error.code)
