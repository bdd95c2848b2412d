"""A server in the test's own process: a real database, fake time, no sockets.

    async with server_world(tmp_path) as world:
        conversation = await world.conversation()
        echo = await world.actor("operator/echo")
        await world.http.post(f"/v1/conversations/{conversation}/messages", json={…})

Decides how tests reach a server; what it does is the server's own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from lineloop.kit.database import Tx
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.protocol.actors import RUNTIME, Actor
from lineloop.server.app import Server
from lineloop.server.commit.participation import join_in
from lineloop.server.decide.access import admin_grant
from lineloop.server.http.link import LinkSession
from lineloop.server.settings import ServerSettings
from lineloop.server.store import conversations, identities
from lineloop.server.store.identities import ActorRow
from lineloop.testing.asgi_transport import AsgiTransport
from lineloop.testing.clock import FakeClock
from lineloop.testing.databases import server_database

HOST = "http://127.0.0.1"


@dataclass(slots=True)
class ServerWorld:
    """`http` is a client with the admin token; `clock` moves only by `advance`.

    `restart` closes the server and opens a new one on the same file: what a process had in memory is gone.
    """

    settings: ServerSettings
    clock: FakeClock
    faults: Faults
    server: Server
    http: httpx.AsyncClient = field(init=False)
    _clients: list[httpx.AsyncClient] = field(default_factory=list[httpx.AsyncClient])
    _transports: list[AsgiTransport] = field(default_factory=list[AsgiTransport])

    @property
    def admin_token(self) -> str:
        return self.server.admin_token

    async def advance(self, seconds: float) -> None:
        """Lets virtual time pass and everything settle."""
        await self.clock.advance(seconds)

    async def restart(self, *, faults: Faults | None = None) -> None:
        """A new server on the same data. Tokens stay valid; clients made before stay usable."""
        await self._stop()
        self.faults = faults or self.faults
        self.server = await _started(self.settings, self.clock, self.faults)

    async def conversation(self, name: str = "test") -> str:
        """The id of a new conversation of the local person."""
        answer = await self.http.post("/v1/conversations", json={"name": name})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def invite(self, conversation_id: str, *actors: str) -> None:
        """Makes each `KIND/KEY` take part, as if the person had spoken to it, without any message."""
        ctx = self.server.commits.ctx

        def join(tx: Tx) -> None:
            conversation = conversations.get(tx, conversation_id)
            assert conversation is not None
            for actor in map(Actor.parse, actors):
                if actor.kind == RUNTIME:
                    identities.register(tx, ActorRow(actor.kind, actor.key, actor.key, "", 0))
                join_in(tx, ctx, conversation, actor, by=admin_grant())

        await self.server.commits.write(join)

    async def token(self, actor: str, verbs: list[str] | None = None) -> str:
        """A stored token for `KIND/KEY`."""
        body: dict[str, Any] = {"actor": Actor.parse(actor).to_wire()}
        if verbs is not None:
            body["verbs"] = verbs
        answer = await self.http.post("/v1/tokens", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    async def actor(self, actor: str, verbs: list[str] | None = None) -> httpx.AsyncClient:
        """An HTTP client that acts as `KIND/KEY`."""
        return self.client({"authorization": f"Bearer {await self.token(actor, verbs)}"})

    def client(self, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
        """An HTTP client with these headers and no credential of its own."""
        transport = AsgiTransport(self._asgi)
        client = httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers or {})
        self._transports.append(transport)
        self._clients.append(client)
        return client

    async def link(self, actor: str) -> LinkSession:
        """An open link session of `KIND/KEY`; its first frame is the hello."""
        return await self.server.open_link(await self.token(actor))

    async def _asgi(self, scope: Any, receive: Any, send: Any) -> None:
        await self.server.asgi(scope, receive, send)

    async def _stop(self) -> None:
        self.faults.release()
        await self.server.close()

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()
        for transport in self._transports:
            await transport.aclose()
        await self._stop()


@asynccontextmanager
async def server_world(
    path: Path,
    *,
    settings: ServerSettings | None = None,
    clock: FakeClock | None = None,
    faults: Faults | None = None,
    **changes: Any,
) -> AsyncGenerator[ServerWorld]:
    """A running server on `path / "server.db"`. `changes` override single settings."""
    fake = clock or FakeClock()
    plan = faults or Faults.none()
    base = settings or ServerSettings(path / "server.db", admin_token="admin-token-of-the-test")  # noqa: S106
    chosen = replace(base, **changes)
    server = await _started(chosen, fake, plan)
    world = ServerWorld(chosen, fake, plan, server)
    world.http = world.client({"authorization": f"Bearer {server.admin_token}"})
    try:
        yield world
    finally:
        await fake.ended(world.close())


async def _started(settings: ServerSettings, clock: FakeClock, faults: Faults) -> Server:
    if isinstance(settings.database, Path):
        settings = replace(settings, database=server_database(settings.database))
    server = Server(settings, clock=clock, ids=Ids(clock), faults=faults)
    await server.start()
    database = server.db
    clock.settle_on(lambda: database.idle)
    return server
