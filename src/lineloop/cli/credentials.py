"""Credentials of one data directory: made once, kept in a 0600 file, never logged.

Decides which parts get a token of their own. Whether a kept token still counts is asked of the server, so a
database that was put back or replaced only costs new tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lineloop.cli.running import CREDENTIALS, read_private, write_private
from lineloop.client.transport import Transport
from lineloop.kit.ids import Ids
from lineloop.protocol.actors import Actor


class Credentials:
    def __init__(self, data_dir: Path, ids: Ids) -> None:
        self._path = data_dir / CREDENTIALS
        self._ids = ids
        self._kept = read_private(self._path)

    @property
    def admin_token(self) -> str:
        """The token with every right; the same at every start."""
        return self._text("admin_token", self._ids.secret)

    @property
    def device_key(self) -> str:
        """The name of this device, `runtime/<key>`."""
        return self._text("device_key", lambda: self._ids.make("device"))

    @property
    def known_device_key(self) -> str | None:
        """The device that this data directory serves, once there is one."""
        key = self._kept.get("device_key")
        return key if isinstance(key, str) and key else None

    def keep_device_key(self, key: str) -> None:
        self._keep("device_key", key)

    def _text(self, name: str, make: Callable[[], str]) -> str:
        value = self._kept.get(name)
        if not isinstance(value, str) or not value:
            value = make()
            self._keep(name, value)
        return value

    def _keep(self, name: str, value: object) -> None:
        # Read again: another command of this data directory may have kept something since.
        self._kept = {**read_private(self._path), name: value}
        write_private(self._path, self._kept)

    async def token_for(self, actor: Actor, admin: Transport) -> str:
        """A token that speaks as `actor`. Raises LoopError when the server refuses to make one."""
        name = f"token:{actor}"
        kept = self._kept.get(name)
        listed = (await admin.request("GET", "/v1/tokens")).body["items"]
        alive = {row["id"] for row in listed if not row.get("revoked_at")}
        if isinstance(kept, dict) and kept.get("id") in alive:
            return str(kept["token"])
        made = (await admin.request("POST", "/v1/tokens", json={"actor": actor.to_wire()})).body
        self._keep(name, {"id": made["id"], "token": made["token"]})
        return str(made["token"])
