"""A device in the test's own process: real SQLite, fake time, a server that speaks only link frames.

    async with device_world(tmp_path) as world:
        await world.invoke("pomodoro.start", {"minutes": 5}, "call-1")
        await world.stages("call-1", "started")

Decides how tests reach a device; what it does is the device's own. `LinkServer` keeps messages by key and
cursors as the server does, so a device can be restarted, cut off and fed twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lineloop.client.http import HttpTransport
from lineloop.client.transport import LinkConnection
from lineloop.device.apps import Packaged
from lineloop.device.host.port import Host
from lineloop.device.runtime import Runtime
from lineloop.device.settings import DeviceSettings
from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import derive_purpose
from lineloop.protocol.envelopes import FromAgent, inventory_request, tool_cancel, tool_invoke
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.tools import ToolKey
from lineloop.protocol.versions import SPOKEN
from lineloop.testing.clock import FakeClock
from lineloop.testing.scripted_containers import Script
from lineloop.testing.simulated_host import SimulatedHost
from lineloop.testing.waiting import until

AGENT = "operator/assistant"
CONVERSATION = "cnv_one"
DEVICE_KEY = "laptop"


@dataclass(slots=True, eq=False)
class Connection:
    """One end of a link, as LinkConnection."""

    server: LinkServer
    inbox: asyncio.Queue[dict[str, Any] | None] = field(default_factory=asyncio.Queue[dict[str, Any] | None])
    open: bool = True

    async def send(self, frame: str) -> None:
        if not self.open:
            raise ConnectionLost("the link is cut")
        self.server.take(self, json.loads(frame))

    async def receive(self) -> dict[str, Any]:
        frame = await self.inbox.get()
        if frame is None:
            raise ConnectionLost("the link is cut")
        return frame

    async def close(self) -> None:
        if self.open:
            self.open = False
            self.inbox.put_nowait(None)


class LinkServer:
    """The server as a device sees it. `frames` are the device's; `lose_answers` keeps results back; while
    there is a `refusal`, every hello is answered with it. `protocol` is the version that it agrees on.
    """

    def __init__(self, clock: FakeClock, device: Actor) -> None:
        self._clock = clock
        self.device = device
        self.messages: list[dict[str, Any]] = []
        self.committed: dict[str, int] = {}
        self.operators: dict[tuple[str, str], None] = {}
        self.frames: list[dict[str, Any]] = []
        self.lose_answers = False
        self.refusal: LoopError | None = None
        self.protocol = SPOKEN.newest
        self.reachable = True
        self.epoch = "e1"
        self._connections: list[Connection] = []

    async def open_link(self) -> LinkConnection:
        if not self.reachable:
            raise ConnectionLost("nobody listens")
        connection = Connection(self)
        if self.refusal is not None:
            connection.inbox.put_nowait({"error": self.refusal.to_problem()})
            return connection
        self._connections.append(connection)
        hello = {
            "protocol": self.protocol,
            "epoch": self.epoch,
            "actor": self.device.to_wire(),
            "heartbeat_ms": 86_400_000,
        }
        connection.inbox.put_nowait({"hello": hello})
        missed = [m for m in self.messages if m["offset"] > self.committed.get(m["conversation_id"], 0)]
        missed = [m for m in missed if m["target"] == self.device.to_wire()]
        if missed:
            connection.inbox.put_nowait({"deliver": missed})
        if self.operators:
            connection.inbox.put_nowait({"participants": [_participant(*one) for one in self.operators]})
        return connection

    def cut(self, *, reachable: bool) -> None:
        """Breaks every connection; new ones are taken or not."""
        self.reachable = reachable
        for connection in self._connections:
            connection.open = False
            connection.inbox.put_nowait(None)
        self._connections.clear()

    def backup(self) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """The server's database as it stands."""
        return list(self.messages), dict(self.committed)

    def restore(self, backup: tuple[list[dict[str, Any]], dict[str, int]]) -> None:
        """A backup takes the place of the database, which lives anew."""
        self.messages, self.committed = list(backup[0]), dict(backup[1])
        self.epoch += "+"
        self.cut(reachable=True)

    def push(self, frame: dict[str, Any]) -> None:
        for connection in self._connections:
            connection.inbox.put_nowait(frame)

    def take(self, connection: Connection, frame: dict[str, Any]) -> None:
        """One frame of the device: everything in it is stored, then answered."""
        if "id" not in frame:
            return
        self.frames.append(frame)
        results: list[dict[str, Any]] = [
            {"ok": True, "message": self.speak(self.device, item)} for item in frame.get("speak", ())
        ]
        for item in frame.get("commit", ()):
            self.committed[item["conversation_id"]] = item["position"]
            results.append({"ok": True})
        if not self.lose_answers:
            connection.inbox.put_nowait({"id": frame["id"], "results": results})

    def speak(self, actor: Actor, item: dict[str, Any]) -> dict[str, Any]:
        """One message by key, as POST …/messages. Asserts that a key comes with the same content."""
        conversation_id = item["conversation_id"]
        for known in self.messages:
            place = (known["conversation_id"], known["actor"], known["key"])
            if place == (conversation_id, actor.to_wire(), item["key"]):
                assert known["content"] == item["content"], f"key {item['key']} was used for another message"
                return known
        place = 1 + sum(1 for m in self.messages if m["conversation_id"] == conversation_id)
        now = rfc3339(self._clock.now_ms())
        message: dict[str, Any] = {
            "id": f"msg_{len(self.messages) + 1}{self.epoch.removeprefix('e1')}",
            "conversation_id": conversation_id,
            "actor": actor.to_wire(),
            "target": item.get("target"),
            "key": item["key"],
            "reply_to_id": item.get("reply_to_id"),
            "purpose": derive_purpose(actor, item["content"]).value,
            "status": "completed",
            "revision": 0,
            "ordinal": place,
            "offset": place,
            "content": item["content"],
            "created_at": now,
            "updated_at": now,
        }
        self.messages.append(message)
        if message["target"] == self.device.to_wire():
            self.push({"deliver": [message]})
        return message


def _participant(conversation_id: str, actor: str) -> dict[str, Any]:
    return {"conversation_id": conversation_id, **Actor.parse(actor).to_wire()}


class _LinkOnly(HttpTransport):
    """A transport whose link leads to a LinkServer; it makes no calls."""

    def __init__(self, server: LinkServer) -> None:
        # Without the pools of a real one, which take longer than most of what a test does.
        self._server = server

    async def open_link(self) -> LinkConnection:
        return await self._server.open_link()

    async def close(self) -> None:
        """There is nothing to give back."""


@dataclass(slots=True)
class DeviceWorld:
    """One device and all that is around it. `restart` is what a kill and a fresh process are to the data."""

    settings: DeviceSettings
    clock: FakeClock
    server: LinkServer
    host: Host
    script: Script | None
    faults: Faults
    runtime: Runtime

    @property
    def simulated(self) -> SimulatedHost:
        assert isinstance(self.host, SimulatedHost)
        return self.host

    async def settle(self) -> None:
        """Lets everything happen that needs no time."""
        await self.clock.settle()

    async def restart(
        self,
        *,
        host: Host | None = None,
        faults: Faults | None = None,
        while_down: Callable[[], None] | None = None,
    ) -> None:
        """Drops the process without a graceful end, and starts a new one on the same data."""
        self.faults.release()
        await self.drop()
        if while_down is not None:
            while_down()
        self.faults = faults or Faults(FaultSite)
        self.host = host or self.host
        await self._start()

    async def drop(self) -> None:
        """Ends the device as it stands: nothing is flushed, nothing more is said."""
        self.server.cut(reachable=self.server.reachable)
        self.runtime.room.pending.settled.clear()
        self.runtime.room.pending.cursors.clear()
        await self.runtime.close()

    async def _start(self) -> None:
        self.runtime = _runtime(self.settings, self.clock, self.server, self.host, self.script, self.faults)
        await self.runtime.start()
        self.clock.settle_on(lambda runtime=self.runtime: runtime.idle)
        if self.server.reachable:
            await self.runtime.wait_ready()
        await self.settle()

    # ── as an agent ─────────────────────────────────────────────────────────────────────────────────────────

    def activate(self, agent: str = AGENT, conversation_id: str = CONVERSATION) -> None:
        """An operator becomes active in a conversation."""
        self.server.operators[(conversation_id, agent)] = None
        self.server.push({"participants": [_participant(conversation_id, agent)]})

    async def inventory(self, agent: str = AGENT, conversation_id: str = CONVERSATION) -> dict[str, Any]:
        """The newest inventory that was published to an agent; activates it when there is none."""
        if self._inventory(agent, conversation_id) is None:
            self.activate(agent, conversation_id)
        return await until(lambda: self._inventory(agent, conversation_id))  # pyright: ignore[reportReturnType]

    def _inventory(self, agent: str, conversation_id: str) -> dict[str, Any] | None:
        target = Actor.parse(agent).to_wire()
        for message in reversed(self.server.messages):
            kind = (message["purpose"], message["target"], message["conversation_id"])
            if kind == ("inventory", target, conversation_id):
                return message["content"]["blocks"][0]["envelope"]["payload"]
        return None

    async def invoke(
        self, method: str, params: dict[str, Any], call_id: str, **changes: Any
    ) -> dict[str, Any]:
        """Speaks one invoke. `changes`: agent, conversation_id, key, revision, version, scope."""
        agent = changes.get("agent", AGENT)
        conversation_id = changes.get("conversation_id", CONVERSATION)
        key = changes.get("key", call_id)
        revision = changes.get("revision") or (await self.inventory(agent, conversation_id))["revision"]
        envelope = tool_invoke(
            self.head(f"env-{key}", agent, conversation_id),
            ToolKey(changes.get("scope", method.partition(".")[0]), method, changes.get("version", "1")),
            params,
            call_id=call_id,
            inventory_revision=revision,
        )
        return self.say(envelope, key, agent=agent, conversation_id=conversation_id)

    def cancel(self, call_id: str, app_scope: str, *, key: str = "cancel", agent: str = AGENT) -> None:
        """Speaks one cancel."""
        head = self.head(f"env-{key}", agent, CONVERSATION)
        self.say(tool_cancel(head, app_scope=app_scope, call_id=call_id), key, agent=agent)

    def ask_inventory(self, key: str = "ask", agent: str = AGENT) -> dict[str, Any]:
        """Speaks one request for the inventory."""
        return self.say(inventory_request(self.head(f"env-{key}", agent, CONVERSATION)), key, agent=agent)

    def head(self, envelope_id: str, agent: str, conversation_id: str) -> FromAgent:
        return FromAgent(envelope_id, rfc3339(self.clock.now_ms()), Actor.parse(agent), conversation_id)

    def say(
        self, envelope: Any, key: str, *, agent: str = AGENT, conversation_id: str = CONVERSATION
    ) -> dict[str, Any]:
        """Speaks any envelope to the device."""
        content = {"version": "1.1", "biz": "chat", "meta": {}}
        blocks = [{"id": "envelope", "type": "envelope", "envelope": envelope}]
        item = {
            "conversation_id": conversation_id,
            "key": key,
            "target": self.server.device.to_wire(),
            "content": {**content, "blocks": blocks},
        }
        return self.server.speak(Actor.parse(agent), item)

    def answers(self, call_id: str, agent: str = AGENT) -> list[dict[str, Any]]:
        """Every envelope that the device has spoken to an agent about a call, in order."""
        target = Actor.parse(agent).to_wire()
        found: list[dict[str, Any]] = []
        for message in self.server.messages:
            if message["purpose"] == "envelope" and message["target"] == target:
                envelope = message["content"]["blocks"][0]["envelope"]
                if envelope["correlation"].get("call_id") == call_id:
                    found.append(envelope)
        return found

    def story(self, call_id: str, agent: str = AGENT) -> list[str]:
        """The call in words: receipt stages, then `result:<outcome>` or `error:<code>`."""
        return [_in_words(envelope) for envelope in self.answers(call_id, agent)]

    async def stages(self, call_id: str, last: str, agent: str = AGENT) -> list[str]:
        """The story once it has reached `last`."""
        await until(lambda: last in self.story(call_id, agent))
        return self.story(call_id, agent)

    async def ended(self, call_id: str, agent: str = AGENT) -> dict[str, Any]:
        """The payload of the call's result or error."""

        def end() -> dict[str, Any] | None:
            for envelope in self.answers(call_id, agent):
                if envelope["type"] in ("lineup.tool.result", "lineup.tool.error"):
                    return envelope["payload"]
            return None

        return await until(end)  # pyright: ignore[reportReturnType]

    async def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query of the device's database answers."""
        return await self.runtime.foundation.read(lambda tx: [tuple(row) for row in tx.all(sql)])


def _in_words(envelope: dict[str, Any]) -> str:
    payload = envelope["payload"]
    match envelope["type"]:
        case "lineup.tool.result":
            return f"result:{payload['result'].get('outcome', 'ok')}"
        case "lineup.tool.error":
            return f"error:{payload['code']}"
        case _:
            return payload["stage"]


def _runtime(
    settings: DeviceSettings,
    clock: FakeClock,
    server: LinkServer,
    host: Host,
    script: Script | None,
    faults: Faults,
) -> Runtime:
    return Runtime(
        settings,
        _LinkOnly(server),
        clock=clock,
        ids=Ids(clock),
        faults=faults,
        host=host,
        make_containers=script.make if script is not None else None,
    )


@asynccontextmanager
async def device_world(
    folder: Path,
    *,
    host: Host | Callable[[FakeClock], Host] | None = None,
    script: Script | None = None,
    faults: Faults | None = None,
    apps: Path | None = None,
    **changes: Any,
) -> AsyncGenerator[DeviceWorld]:
    """A started device. `apps` is a folder of further apps that come along; `changes` are settings.

    Without `script` apps run in real logic containers. `host` may be made with the world's clock.
    """
    clock = FakeClock()
    settings = DeviceSettings(folder, DEVICE_KEY, receipt_hold_seconds=0.0)
    if apps is not None:
        settings = replace(settings, packaged=Packaged(Packaged.of_this_installation().core, apps))
    settings = replace(settings, **changes)
    server = LinkServer(clock, Actor("runtime", DEVICE_KEY))
    host = host(clock) if callable(host) else host or SimulatedHost()
    faults = faults or Faults(FaultSite)
    runtime = _runtime(settings, clock, server, host, script, faults)
    world = DeviceWorld(settings, clock, server, host, script, faults, runtime)
    await world._start()  # pyright: ignore[reportPrivateUsage]
    try:
        yield world
    finally:
        world.faults.release()
        await clock.ended(world.runtime.close())
