"""Settings of a device Runtime. Who fills them from files and environment is the composition's affair."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any

from lineloop.device.apps import Packaged
from lineloop.device.decide.state import Limits
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor


@record
class Retention:
    """For how many days things are kept that nobody needs any more; None: for ever.

    `calls`: what an ended call was asked and answered; that there was one under its id stays for ever.
    `inbox`: what an app has acknowledged. `outbox`: what the server has. `audit`: its lines, and what they
    name. `sessions`: the data of closed sub-sessions.
    """

    calls: float | None = None
    inbox: float | None = None
    outbox: float | None = None
    audit: float | None = None
    sessions: float | None = None

    @property
    def is_on(self) -> bool:
        kept = (self.calls, self.inbox, self.outbox, self.audit, self.sessions)
        return any(days is not None for days in kept)


@record
class Place:
    """Where a device runs, as a person is told: the folder with all its data, and the server's address. None
    where there is nothing to tell. `messages_days`: for how long messages are kept, 0 = for ever.
    """

    data_folder: str | None = None
    server: str | None = None
    messages_days: float | None = None

    def to_wire(self) -> dict[str, Any]:
        """`messages_days` is absent when it is not known, null for ever."""
        wire: dict[str, Any] = {"data_folder": self.data_folder, "server": self.server}
        if self.messages_days is not None:
            wire["messages_days"] = self.messages_days or None
        return wire


@record
class DeviceSettings:
    """`device_key` names the device (`runtime/<device_key>`); `data_dir` holds its file `device.sqlite3`.

    `person` is whom records are for. `receipt_hold_seconds`: how long the first receipt of a call that is
    with its handler may wait for the result, to travel in one frame with it; a result never waits. `packaged`
    are the apps that come along; None = those of this installation. `place` is what people are told.
    """

    data_dir: Path
    device_key: str
    person: Actor | None = field(default_factory=lambda: Actor("user", "local"))
    limits: Limits = field(default_factory=Limits)
    receipt_hold_seconds: float = 0.005
    lazy_write_seconds: float = 0.5
    sweep_seconds: float = 5.0
    offline_after_seconds: float = 3.0
    packaged: Packaged | None = None
    retention: Retention = field(default_factory=Retention)
    place: Place = field(default_factory=Place)

    @property
    def database_path(self) -> Path:
        return self.data_dir / "device.sqlite3"
