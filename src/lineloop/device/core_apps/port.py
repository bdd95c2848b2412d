"""What a core app's answers stand on, and what one of its sessions may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from lineloop.device.apps import AppRegistry
from lineloop.device.bridge.session_bridge import Request
from lineloop.device.commit.room import Room
from lineloop.device.connection import Connection
from lineloop.device.core_apps.actions import Receipts
from lineloop.device.core_apps.outgoing import Outgoing
from lineloop.device.foundation import Foundation
from lineloop.device.person.side import PersonSide
from lineloop.device.settings import Place
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor

ModelSource = Callable[[], dict[str, Any] | None]


@record
class CoreParts:
    """The parts of the device that core apps show and steer.

    `person_side` is None on a device without a person's credential: then there is nothing to read or say.
    `audit` answers stories as store/stories reads them; `choose_default` sets the app that is seen first.
    """

    foundation: Foundation
    room: Room
    registry: AppRegistry
    connection: Connection
    person: Actor | None
    person_side: PersonSide | None
    audit: Callable[..., Awaitable[list[dict[str, Any]]]]
    place: Place
    choose_default: Callable[[str | None], Awaitable[None]]


class CoreApp(Protocol):
    """The answers of one open session of a core app."""

    @property
    def requests(self) -> dict[str, Request]:
        """What it answers, by frame type, besides `hello`."""
        ...

    async def state(self) -> dict[str, Any]:
        """The app's state, for `init`."""
        ...

    def model_changed(self) -> None:
        """The model that answers by default is another one."""
        ...

    def close(self) -> None:
        """Ends its subscriptions."""
        ...


@record
class SessionParts:
    """What one session has: the device's parts, its way to the page, the receipts of its app's actions."""

    parts: CoreParts
    outgoing: Outgoing
    receipts: Receipts
    model: ModelSource
