"""A real server and a real device in the test's own process: real SQLite twice, fake time, no sockets.

    async with full_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")

Decides how tests reach both; what they do is their own. Everything an agent does here goes over HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from lineloop.client.in_process import InProcessTransport
from lineloop.device.host.port import Host
from lineloop.device.runtime import Runtime
from lineloop.device.settings import DeviceSettings
from lineloop.kit.clock import rfc3339
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import envelope_content
from lineloop.protocol.envelopes import FromAgent, tool_invoke
from lineloop.protocol.tools import ToolKey
from lineloop.testing.server_world import ServerWorld, server_world
from lineloop.testing.simulated_host import SimulatedHost
from lineloop.testing.waiting import until

DEVICE = "runtime/laptop"
AGENT = "operator/assistant"
PERSON = "user/local"


@dataclass(slots=True)
class FullWorld:
    """`agent` is an HTTP client with the agent's token, `conversation_id` a conversation of the person."""

    server: ServerWorld
    runtime: Runtime
    agent: httpx.AsyncClient
    conversation_id: str
    make_runtime: Callable[[], Runtime]

    async def restart_device(self) -> None:
        """Closes the device and starts a new one on the same data; it need not find a server."""
        await self.runtime.close()
        runtime = self.runtime = self.make_runtime()
        await runtime.start()
        self.server.clock.settle_on(lambda: runtime.idle)

    async def server_goes(self) -> None:
        """The server stops; `server_comes` starts it again on the same data."""
        await self.server.server.close()

    async def server_comes(self) -> None:
        await self.server.restart()

    async def messages(self, **query: str) -> list[dict[str, Any]]:
        """Messages of the conversation by ordinal."""
        path = f"/v1/conversations/{self.conversation_id}/messages"
        answer = await self.agent.get(path, params={"limit": "500", **query})
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]

    async def inventory(self) -> dict[str, Any]:
        """The newest inventory published to the agent."""

        async def newest() -> dict[str, Any] | None:
            found = await self.messages(purpose="inventory")
            return found[-1]["content"]["blocks"][0]["envelope"]["payload"] if found else None

        return await until(newest)  # pyright: ignore[reportReturnType]

    async def invoke(self, method: str, params: dict[str, Any], call_id: str) -> dict[str, Any]:
        """Speaks one invoke as the agent; the stored message."""
        head = FromAgent(
            f"env-{call_id}", rfc3339(self.server.clock.now_ms()), Actor.parse(AGENT), self.conversation_id
        )
        envelope = tool_invoke(
            head,
            ToolKey(method.partition(".")[0], method, "1"),
            params,
            call_id=call_id,
            inventory_revision=(await self.inventory())["revision"],
        )
        body = {
            "key": call_id,
            "target": Actor.parse(DEVICE).to_wire(),
            "content": envelope_content(envelope),
        }
        path = f"/v1/conversations/{self.conversation_id}/messages"
        answer = await self.agent.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def story(self, call_id: str) -> list[str]:
        """The call in words: receipt stages, then `result` or `error:<code>`."""
        found = await self.messages(purpose="envelope", call_id=call_id)
        envelopes = [m["content"]["blocks"][0]["envelope"] for m in found if m["actor"]["kind"] == "runtime"]
        return [_in_words(envelope) for envelope in envelopes]

    async def stages(self, call_id: str, last: str) -> list[str]:
        """The story once it has reached `last`."""

        async def reached() -> list[str] | None:
            told = await self.story(call_id)
            return told if last in told else None

        return await until(reached)  # pyright: ignore[reportReturnType]


def _in_words(envelope: dict[str, Any]) -> str:
    payload = envelope["payload"]
    match envelope["type"]:
        case "lineup.tool.result":
            return f"result:{payload['result'].get('outcome', 'ok')}"
        case "lineup.tool.error":
            return f"error:{payload['code']}"
        case _:
            return payload["stage"]


@asynccontextmanager
async def full_world(
    folder: Path,
    *,
    host: Host | None = None,
    person: bool = False,
    faults: Faults | None = None,
    **changes: Any,
) -> AsyncGenerator[FullWorld]:
    """A server with one conversation, an online device, and an agent that the person has greeted there.

    With `person` the device has its person's credential too, as it has in front of a display.
    """
    async with server_world(folder) as server:
        make = _maker(
            server,
            DeviceSettings(folder, Actor.parse(DEVICE).key, **changes),
            await server.token(DEVICE),
            await server.token(PERSON) if person else None,
            lambda: host or SimulatedHost(),
            faults,
        )
        runtime = make()
        await runtime.start()
        server.clock.settle_on(lambda: runtime.idle)
        try:
            await runtime.wait_ready()
            conversation_id = await server.conversation()
            agent = await server.actor(AGENT)
            greeting = {"key": "hello", "text": "hello", "target": Actor.parse(AGENT).to_wire()}
            answer = await server.http.post(f"/v1/conversations/{conversation_id}/messages", json=greeting)
            assert answer.status_code == 201, answer.text
            world = FullWorld(server, runtime, agent, conversation_id, make)
            try:
                yield world
            finally:
                await server.clock.ended(world.runtime.close())
        finally:
            await server.clock.ended(runtime.close())


def _maker(
    server: ServerWorld,
    settings: DeviceSettings,
    token: str,
    person_token: str | None,
    make_host: Callable[[], Host],
    faults: Faults | None,
) -> Callable[[], Runtime]:
    """Makes devices that reach whichever server is running."""

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        await server.server.asgi(scope, receive, send)

    async def open_link(token: str) -> Any:
        return await server.server.open_link(token)

    def make() -> Runtime:
        return Runtime(
            settings,
            InProcessTransport(asgi, open_link, token),
            clock=server.clock,
            ids=Ids(server.clock),
            host=make_host(),
            faults=faults,
            person_transport=InProcessTransport(asgi, open_link, person_token) if person_token else None,
        )

    return make
