"""Finding a running system: the ready file, remembered ports, stored credentials of one data directory.

Decides file names and contents, all of them private (0600) and written whole. Leaves locks to kit/datadir.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from lineloop.kit.datadir import hold, is_held, write_atomic
from lineloop.kit.json import dumps, loads
from lineloop.kit.records import record

READY = "ready.json"
PORTS = "ports.json"
CREDENTIALS = "credentials.json"
CHAT = "chat.json"


@record
class Ready:
    """What an outside program needs to reach a running system; written once every part answers."""

    server_url: str | None
    shell_url: str | None
    shell_code: str | None
    admin_token: str | None
    device_key: str | None
    pid: int


def write_private(path: Path, value: dict[str, Any]) -> None:
    write_atomic(path, (dumps(value) + "\n").encode(), 0o600)


def read_private(path: Path) -> dict[str, Any]:
    """The JSON object of a file; empty when it is missing or unreadable as such."""
    try:
        value = loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class ReadyFiles:
    """Announces one running system: in its data directory and, if asked, in a file of the caller's choice."""

    def __init__(self, data_dir: Path, asked: Path | None) -> None:
        self._own = data_dir / READY
        self._paths = [self._own, *([asked] if asked else [])]
        self._held: int | None = None

    def write(self, ready: Ready) -> None:
        """Holds the file of the data directory from now on, until `remove` or the end of the process.

        Raises OSError when the caller's file cannot be written.
        """
        for path in self._paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, asdict(ready))
        self._held = hold(self._own)

    def remove(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None
        for path in self._paths:
            path.unlink(missing_ok=True)


def find_running(data_dir: Path) -> Ready | None:
    """The system that runs on this data directory now. A file that its process left behind does not count,
    also when another process has that number by now.
    """
    path = data_dir / READY
    value = read_private(path)
    if not isinstance(value.get("pid"), int) or not is_held(path):
        return None
    known = {name: value.get(name) for name in Ready.__dataclass_fields__}
    return Ready(**cast("dict[str, Any]", known))


def remembered_port(data_dir: Path, name: str) -> int | None:
    """The port that `name` (server, shell) had last time on this data directory."""
    port = read_private(data_dir / PORTS).get(name)
    return port if isinstance(port, int) and 0 < port < 65536 else None


def remember_port(data_dir: Path, name: str, port: int) -> None:
    ports = read_private(data_dir / PORTS)
    if ports.get(name) != port:
        write_private(data_dir / PORTS, {**ports, name: port})
