"""A private door to a running device: one JSON line in, one out, on a loopback port with a secret.

Decides who may knock (whoever can read the 0600 file in the data directory) and the frame; apps.py has the
commands. See docs/decisions/0019.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

from lineloop.cli.running import read_private, write_private
from lineloop.kit.ids import Ids
from lineloop.kit.json import dumps, loads
from lineloop.protocol.errors import ConnectionLost, LoopError, Unauthorized

CONTROL = "control.json"
LINE_BYTES = 1024 * 1024
ANSWER_SECONDS = 60.0

Handle = Callable[[str, dict[str, Any]], Awaitable[Any]]


class ControlDoor:
    """The running side. `handle(verb, arguments)` answers JSON or raises LoopError."""

    def __init__(self, folder: Path, ids: Ids, handle: Handle) -> None:
        self._path = folder / CONTROL
        self._secret = ids.secret()
        self._handle = handle
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LINE_BYTES)
        port = self._server.sockets[0].getsockname()[1]
        write_private(self._path, {"port": port, "secret": self._secret})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await asyncio.wait_for(reader.readline(), ANSWER_SECONDS)
            writer.write((dumps(await self._answer(line)) + "\n").encode())
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            asked = loads(line)
            if not hmac.compare_digest(str(asked.get("secret", "")), self._secret):
                raise Unauthorized("this door needs the secret of its file")
            return {"ok": await self._handle(asked["verb"], asked.get("arguments") or {})}
        except LoopError as error:
            return {"error": error.to_problem()}


async def knock(folder: Path, verb: str, arguments: dict[str, Any]) -> Any:
    """The running device's answer. Raises its LoopError, or ConnectionLost when nobody is behind the door."""
    door = read_private(folder / CONTROL)
    if not door:
        raise ConnectionLost("no device runs on this data directory")
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", door["port"], limit=LINE_BYTES)
    except OSError as error:
        raise ConnectionLost("no device runs on this data directory") from error
    try:
        asked = {"secret": door["secret"], "verb": verb, "arguments": arguments}
        writer.write((dumps(asked) + "\n").encode())
        answer = loads(await asyncio.wait_for(reader.readline(), ANSWER_SECONDS))
    except (OSError, TimeoutError, ValueError) as error:
        raise ConnectionLost("the device ended before it answered") from error
    finally:
        writer.close()
    if "error" in answer:
        raise LoopError.from_problem(answer["error"])
    return answer["ok"]
