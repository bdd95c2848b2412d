"""A person, the assistant, a whole server, and a device that a test plays by hand through the wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.operators.assistant import assistant_operator
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import envelope_content
from lineloop.protocol.envelopes import FromDevice, Stage, inventory_envelope, tool_receipt, tool_result
from lineloop.protocol.messages import Message
from lineloop.protocol.tools import Inventory, ToolDescriptor
from lineloop.testing.operator_world import OperatorWorld, operator_world

ROOT = Path(__file__).resolve().parents[3]
ASSISTANT = Actor("operator", "assistant")
DEVICE = Actor("runtime", "laptop")


@dataclass(slots=True)
class AssistantWorld:
    """`device` is an HTTP client that acts as `runtime/laptop`."""

    world: OperatorWorld
    device: httpx.AsyncClient
    _sent: int = 0
    _answered: set[str] = field(default_factory=set[str])

    @property
    def conversation_id(self) -> str:
        return self.world.conversation_id

    async def say(self, text: str) -> Message:
        return await self.world.say(text, to=ASSISTANT)

    async def history(self, purpose: str = "all", conversation_id: str | None = None) -> list[Message]:
        conversation = self.world.person.conversation(conversation_id or self.conversation_id)
        return (await conversation.read(limit=500, purpose=purpose)).items

    async def answers(self) -> list[Message]:
        """What the assistant has said to people, in order."""
        return [m for m in await self.history("speech") if m.actor == ASSISTANT]

    async def answered(self, count: int) -> list[Message]:
        """Let time pass until the assistant has said `count` things."""
        for _ in range(80):
            await self.world.settled()
            if len(found := await self.answers()) >= count:
                return found
            await self.world.clock.advance(0.25)
        raise AssertionError(f"the assistant said only: {[m.text for m in await self.answers()]}")

    async def next_invoke(self) -> Message:
        """The next tool call that this device has not answered."""
        for _ in range(80):
            await self.world.settled()
            for message in await self.history("envelope"):
                is_call = message.target == DEVICE and _envelope(message)["type"] == "lineup.tool.invoke"
                if is_call and message.id not in self._answered:
                    self._answered.add(message.id)
                    return message
            await self.world.clock.advance(0.25)
        raise AssertionError("no call came")

    async def publish(self) -> None:
        manifest = json.loads((ROOT / "apps/pomodoro/manifest.json").read_text(encoding="utf-8"))
        tools = [
            ToolDescriptor.from_wire({**tool, "app_scope": manifest["app_scope"]})
            for tool in manifest["tools"]
        ]
        inventory = Inventory.of(tools, apps=[{"app_scope": "pomodoro", "title": "Pomodoro"}])
        await self._speak(inventory_envelope(self._head("runtime"), inventory.to_payload()), None)

    async def receipt(self, invoke: Message, stage: Stage, sequence: int, **facts: Any) -> Message:
        call_id = _envelope(invoke)["correlation"]["call_id"]
        head = self._head("pomodoro")
        sent = tool_receipt(head, stage, call_id=call_id, sequence=sequence, facts=facts)
        return await self._speak(sent, invoke.id)

    async def result(self, invoke: Message, sequence: int, **result: Any) -> Message:
        call_id = _envelope(invoke)["correlation"]["call_id"]
        sent = tool_result(self._head("pomodoro"), result, call_id=call_id, sequence=sequence)
        return await self._speak(sent, invoke.id)

    async def start_focus(self, text: str = "start a 1 minute focus called tea") -> tuple[Message, Message]:
        """Say it, and let the device begin; returns the input and the call."""
        said = await self.say(text)
        invoke = await self.next_invoke()
        await self.receipt(invoke, Stage.STARTING, 1)
        await self.receipt(invoke, Stage.STARTED, 2, duration_ms=60_000, ends_at="2026-01-02T03:05:05.000Z")
        return said, invoke

    def _head(self, app_scope: str) -> FromDevice:
        now = rfc3339(self.world.clock.now_ms())
        self._sent += 1
        return FromDevice(f"env_{self._sent}", now, DEVICE.key, ASSISTANT, self.conversation_id, app_scope)

    async def _speak(self, envelope: dict[str, Any], reply_to: str | None) -> Message:
        answer = await self.device.post(
            f"/v1/conversations/{self.conversation_id}/messages",
            json={
                "key": f"out-{self._sent}",
                "content": envelope_content(envelope),
                "target": ASSISTANT.to_wire(),
                "reply_to_id": reply_to,
            },
        )
        assert answer.status_code == 201, answer.text
        await self.world.settled()
        return Message.from_wire(answer.json())


def _envelope(message: Message) -> dict[str, Any]:
    assert message.envelope is not None
    return message.envelope


@asynccontextmanager
async def assistant_world(path: Path, **server_changes: Any) -> AsyncGenerator[AssistantWorld, None]:
    async with operator_world(path, assistant_operator(), **server_changes) as world:
        device = await world.server.actor(str(DEVICE))
        for actor in (DEVICE, ASSISTANT):
            await world.server.invite(world.conversation_id, str(actor))
        made = AssistantWorld(world, device)
        yield made
