"""Two servers on one database, in real time: what is written through A is looked at through B."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from lineloop.protocol.actors import Actor
from lineloop.server.app import Server
from lineloop.server.http.link import LinkSession
from lineloop.server.settings import ServerSettings
from lineloop.testing import until
from lineloop.testing.asgi_transport import AsgiTransport

HOST = "http://127.0.0.1"
TOKEN = "admin-token-of-the-test"


@dataclass(slots=True)
class Replica:
    """`http` is a client with the admin token."""

    server: Server
    http: httpx.AsyncClient

    async def link(self, actor: str) -> LinkSession:
        """An open link of `KIND/KEY`; its first frame, the hello, is taken."""
        answer = await self.http.post("/v1/tokens", json={"actor": Actor.parse(actor).to_wire()})
        link = await self.server.open_link(answer.json()["token"])
        await link.receive()
        return link


@dataclass(slots=True)
class Pair:
    a: Replica
    b: Replica


@asynccontextmanager
async def replica(database: Path | str, **settings: Any) -> AsyncGenerator[Replica]:
    async with AsyncExitStack() as stack:
        server = Server(ServerSettings(database, admin_token=TOKEN, **settings))
        await server.start()
        stack.push_async_callback(server.close)
        transport = AsgiTransport(server.asgi)
        stack.push_async_callback(transport.aclose)
        headers = {"authorization": f"Bearer {TOKEN}"}
        client = httpx.AsyncClient(transport=transport, base_url=HOST, headers=headers)
        stack.push_async_callback(client.aclose)
        relay = server.replicas.relay
        if relay is not None:
            await until(lambda: relay.figures.connected)
        yield Replica(server, client)


@asynccontextmanager
async def pair(database: Path | str, **settings: Any) -> AsyncGenerator[Pair]:
    async with replica(database, **settings) as a, replica(database, **settings) as b:
        yield Pair(a, b)
