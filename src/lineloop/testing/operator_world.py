"""Operators in the test's own process, against a real server on a real file, in virtual time.

    async with operator_world(tmp_path, operator) as world:
        await world.say("hello")
        [answer] = await world.answers(1)

Decides how a test speaks as a person and looks at answers. What operators do, and when, is their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineloop.client import Loop
from lineloop.client.in_process import AsgiMessage, InProcessTransport, ServerSession
from lineloop.kit.faults import Faults
from lineloop.operators.operator import Operator
from lineloop.operators.worker import OperatorWorker
from lineloop.protocol.actors import OPERATOR, Actor
from lineloop.protocol.messages import Message
from lineloop.testing.clock import FakeClock
from lineloop.testing.server_world import ServerWorld, server_world
from lineloop.testing.waiting import until


@dataclass(slots=True)
class OperatorWorld:
    """`person` is a Loop of the local person; `conversation_id` is a conversation made for the test."""

    server: ServerWorld
    person: Loop
    conversation_id: str
    workers: list[OperatorWorker] = field(default_factory=list[OperatorWorker])
    _loops: list[Loop] = field(default_factory=list[Loop])
    _said: int = 0

    @property
    def clock(self) -> FakeClock:
        return self.server.clock

    async def loop(self, actor: str, *, faults: Faults | None = None) -> Loop:
        """A Loop with a token of `KIND/KEY`; closed with the world."""
        loop = Loop(
            transport_to(self.server, await self.server.token(actor)), clock=self.clock, faults=faults
        )
        self._loops.append(loop)
        return loop

    async def run(self, operator: Operator, *, faults: Faults | None = None) -> OperatorWorker:
        """Start an operator as its own process would be: own token, own link."""
        worker = OperatorWorker(operator, await self.loop(str(operator.actor), faults=faults))
        await worker.start()
        self.workers.append(worker)
        return worker

    async def say(
        self, text: str, *, to: str | Actor | None = None, conversation_id: str | None = None
    ) -> Message:
        """Speak as the person; `to` an operator key or an actor (default: the first operator)."""
        self._said += 1
        if to is None:
            to = self.workers[0].operator.actor
        target = to if isinstance(to, Actor) else Actor(OPERATOR, to)
        conversation = self.person.conversation(conversation_id or self.conversation_id)
        return (await conversation.speak(text, key=f"said-{self._said}", target=target)).message

    async def answers(
        self, count: int, *, of: Actor | None = None, conversation_id: str | None = None
    ) -> list[Message]:
        """What an operator (default: the first) has said in the conversation, once it is `count` messages."""
        author = of or self.workers[0].operator.actor
        conversation = self.person.conversation(conversation_id or self.conversation_id)
        found: list[Message] = []

        async def enough() -> bool:
            page = await conversation.read(limit=500)
            found[:] = [message for message in page.items if message.actor == author]
            return len(found) >= count and all(message.status.ended for message in found)

        await until(enough)
        return list(found)

    async def settled(self) -> None:
        """Until nothing more happens without time passing."""
        await self.clock.settle()

    async def close(self) -> None:
        for worker in self.workers:
            await worker.stop()
        for loop in self._loops:
            await loop.close()
        await self.person.close()


def transport_to(server: ServerWorld, token: str) -> InProcessTransport:
    """A transport that finds the world's server also after its restart."""

    async def asgi(scope: AsgiMessage, receive: Any, send: Any) -> None:
        await server.server.asgi(scope, receive, send)

    async def open_link(token: str) -> ServerSession:
        return await server.server.open_link(token)

    return InProcessTransport(asgi, open_link, token)


@asynccontextmanager
async def operator_world(
    path: Path, *operators: Operator, **server_changes: Any
) -> AsyncGenerator[OperatorWorld, None]:
    """A server in `path` with these operators running. `server_changes` as for `server_world`."""
    async with server_world(path, **server_changes) as server:
        person = Loop(transport_to(server, server.admin_token), clock=server.clock)
        world = OperatorWorld(server, person, await server.conversation())
        try:
            for operator in operators:
                await world.run(operator)
            yield world
        finally:
            await server.clock.ended(world.close())
