"""The parent's handle of one app's logic process (the child itself is process.py).

Decides how the child is started (no environment, no inherited descriptors, own session), how lines go in and
out, and when it is killed: the watchdog runs on real time whatever clock the Runtime uses, because a process
that spins does so in real time. Leaves to its sessions what a frame means.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import structlog

from lineloop.device.containers.port import ContainerFailed, InstalledApp
from lineloop.kit.records import record

_log = structlog.get_logger(__name__)

_PROCESS_FILE = Path(__file__).with_name("process.py")
_PRELUDE_FILE = Path(__file__).with_name("sdk_prelude.js")
_LOGGED_CHARS = 2000


@record
class LogicLimits:
    """What one context and one process may use.

    `turn_seconds` is processor time for one frame with all its promise jobs; `silence_seconds` is real time
    within which the process must have handled something that was sent to it, or it is killed.
    """

    memory_bytes: int = 64 * 1024 * 1024
    turn_seconds: float = 2.0
    silence_seconds: float = 10.0


@cache
def engine_folder() -> str:
    """The folder that holds the engine's extension module. Raises ContainerFailed when there is none."""
    try:
        import _quickjs
    except ImportError as error:
        raise ContainerFailed("no_container", "this installation has no JavaScript engine") from error
    return str(Path(str(_quickjs.__file__)).parent)


@cache
def _prelude() -> bytes:
    return _PRELUDE_FILE.read_bytes()


class Receiver(Protocol):
    """One session of the process: takes its frames and the news of its end."""

    def take(self, text: str) -> None: ...

    def context_gone(self, reason: str, call_id: str | None, message: str) -> None: ...


class LogicProcess(asyncio.SubprocessProtocol):
    """The child process of one app. Made by `start`; once gone it never comes back."""

    def __init__(self, app_scope: str, limits: LogicLimits) -> None:
        self.app_scope = app_scope
        self.limits = limits
        self.gone = False
        self.sessions: dict[str, Receiver] = {}
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._buffer = bytearray()
        self._source_digest = ""
        self._next_sid = 0
        self._unhandled = 0
        self._heard_at = 0.0
        self._watchdog: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = self._loop.create_future()

    @classmethod
    async def start(cls, app_scope: str, limits: LogicLimits) -> LogicProcess:
        """Starts the process. Raises ContainerFailed."""
        folder = engine_folder()
        loop = asyncio.get_running_loop()
        try:
            _, process = await loop.subprocess_exec(
                lambda: cls(app_scope, limits),
                sys.executable,
                "-I",
                "-S",
                str(_PROCESS_FILE),
                folder,
                env=_scrubbed_environment(),
                cwd=os.sep,
                start_new_session=True,
            )
        except OSError as error:
            raise ContainerFailed("no_container", f"no process could be started: {error.strerror}") from error
        process.send_raw("P", _prelude())
        return process

    @property
    def pid(self) -> int | None:
        """The process id while the process lives."""
        return self._transport.get_pid() if self._transport and not self.gone else None

    @property
    def idle(self) -> bool:
        """Whether everything that was sent has been handled."""
        return self.gone or self._unhandled == 0

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, app: InstalledApp) -> None:
        """Makes the app's script the one for contexts opened from here on. Raises ContainerFailed."""
        if app.digest == self._source_digest:
            return
        assert app.logic is not None
        try:
            source = app.logic.read_bytes()
            source.decode()
        except (OSError, ValueError) as error:
            raise ContainerFailed("app_start_failed", "the app's logic.js cannot be read") from error
        self.send_raw("L", source)
        self._source_digest = app.digest

    def attach(self, container: Receiver) -> str:
        """Gives a session its number in this process."""
        self._next_sid += 1
        sid = str(self._next_sid)
        self.sessions[sid] = container
        return sid

    def detach(self, sid: str) -> None:
        """Drops a session's context."""
        if self.sessions.pop(sid, None) is not None and not self.gone:
            self.send_line(f"X{sid}")

    def send_raw(self, kind: str, data: bytes) -> None:
        self._write(b"%s%d\n%s" % (kind.encode(), len(data), data))

    def send_line(self, line: str) -> None:
        self._write(line.encode() + b"\n")

    def _write(self, data: bytes) -> None:
        if self.gone or self._stdin is None:
            return
        if self._unhandled == 0:
            self._heard_at = self._loop.time()
            if self._watchdog is None:
                self._watchdog = self._loop.call_later(self.limits.silence_seconds, self._check_silence)
        self._unhandled += 1
        self._stdin.write(data)

    # ── the protocol's side ─────────────────────────────────────────────────────────────────────────────────

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Other loops' transports are of these kinds without being of these classes.
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            text = data.decode("utf-8", "replace")[:_LOGGED_CHARS]
            _log.warning("container_stderr", app_scope=self.app_scope, text=text)
            return
        self._buffer += data
        if not data.endswith(b"\n") and b"\n" not in data:
            return
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = rest
        for line in lines:
            self._take(line.decode("utf-8", "replace"))

    def _take(self, line: str) -> None:
        if line.startswith("."):
            self._unhandled -= int(line[1:])
            self._heard_at = self._loop.time()
            return
        if line.startswith("!"):
            sid, reason, call_id, message = line[1:].split(" ", 3)
            container = self.sessions.pop(sid, None)
            if container is not None:
                container.context_gone(reason, None if call_id == "-" else call_id, message)
            return
        sid, _, text = line.partition(" ")
        container = self.sessions.get(sid)
        if container is not None:
            container.take(text)

    def process_exited(self) -> None:
        self._bury()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's signature)
        self._bury()
        if not self._exited.done():
            self._exited.set_result(None)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            self.kill()

    def _check_silence(self) -> None:
        self._watchdog = None
        if self.gone or self._unhandled <= 0:
            return
        silent = self._loop.time() - self._heard_at
        left = self.limits.silence_seconds - silent
        if left <= 0:
            _log.warning(
                "container_killed", app_scope=self.app_scope, reason="silent", seconds=round(silent, 1)
            )
            self.kill()
        else:
            self._watchdog = self._loop.call_later(left, self._check_silence)

    def kill(self) -> None:
        """Ends the process at once; every session is told."""
        if self._transport is not None and not self.gone:
            with contextlib.suppress(ProcessLookupError):
                self._transport.kill()
        self._bury()

    def _bury(self) -> None:
        if self.gone:
            return
        self.gone = True
        if self._watchdog is not None:
            self._watchdog.cancel()
        sessions, self.sessions = self.sessions, {}
        for container in sessions.values():
            container.context_gone("crashed", None, "the app's process ended")

    async def close(self) -> None:
        """Ends the process and waits until it is gone."""
        self.kill()
        if self._transport is not None:
            self._transport.close()
            await asyncio.shield(self._exited)


def _scrubbed_environment() -> dict[str, str]:
    # Windows cannot start a process without SystemRoot; everything else is withheld.
    return {"SystemRoot": "C:\\Windows"} if sys.platform == "win32" else {}
