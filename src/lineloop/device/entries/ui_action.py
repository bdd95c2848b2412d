"""Second entry: what the person does inside an app's surface. Identity is the instance behind the port.

Builds `UiAction`, and nobody else does. Never becomes a tool call.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from lineloop.device.commit import intents
from lineloop.device.commit.room import Room
from lineloop.device.decide.actions import SurfaceEvent, UiAction
from lineloop.kit import json

SOURCE = "ui_action"


class UiActionEntry:
    """Takes UI actions of one device."""

    def __init__(self, room: Room) -> None:
        self._room = room

    async def dispatch(self, instance_id: str, action_id: str, action: str, params: dict[str, Any]) -> bool:
        """True when the action is new and on its way to the app, False for a repeat.

        `instance_id` comes from the port, never from the payload. Raises LoopError: not_found,
        invalid_arguments, key_conflict.
        """
        digest = hashlib.sha256(json.canonical([action, params])).hexdigest()
        request = UiAction(instance_id, action_id, action, params, digest)
        return await self._room.submit(
            SOURCE, partial(intents.take_action, room=self._room, request=request), "device.action"
        )

    async def note_event(self, instance_id: str, name: str, data: Any) -> None:
        """Keeps what a surface says has happened in it, in the audit. Raises LoopError: not_found,
        invalid_arguments, limit_exceeded.
        """
        event = SurfaceEvent(instance_id, name, data)
        job = partial(intents.take_surface_event, room=self._room, event=event)
        await self._room.submit(SOURCE, job, "device.action")
