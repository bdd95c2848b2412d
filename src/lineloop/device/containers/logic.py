"""The logic container, parent's side: one child process per app, one JavaScript context per app session.

Decides how a session in the child is started, fed and buried: limits, the watchdog, and which outcome a call
gets when its context or process dies. Leaves to others: when to start (pool and core), what frames mean beyond
tools (session bridge), how long a tool may take (core; a turn of code, though, is bounded here).

The watchdog runs on real time whatever clock the Runtime uses: a process that spins does so in real time.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import structlog

from lineloop.device.bridge.frames import (
    Answer,
    Direction,
    Frame,
    FrameRefused,
    call_named_in,
    decode,
    encode,
    encode_error,
)
from lineloop.device.containers.port import (
    Completed,
    ContainerEvents,
    ContainerFailed,
    Failed,
    InstalledApp,
    Invocation,
    Open,
    Outcome,
    SessionContext,
)
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.tools import Delivery

_log = structlog.get_logger(__name__)

_PROCESS_FILE = Path(__file__).with_name("process.py")
_PRELUDE_FILE = Path(__file__).with_name("sdk_prelude.js")
_LOGGED_LINE_CHARS = 2000
SDK_FEATURES = ("app.lifecycle.v1", "app.tools.v1", "app.session-data.v1", "app.inbox.v1", "surface.state.v1")


@dataclass(frozen=True, slots=True)
class LogicLimits:
    """What one context and one process may use.

    `turn_seconds` is processor time for one frame with all its promise jobs; `silence_seconds` is real time
    within which the process must have handled something that was sent to it, or it is killed.
    """

    memory_bytes: int = 64 * 1024 * 1024
    turn_seconds: float = 2.0
    silence_seconds: float = 10.0


class Bridge(Protocol):
    """Takes every frame of an app session that is not about tools (implemented by SessionBridge)."""

    def handle(self, frame: Frame) -> None: ...

    def close(self) -> None: ...


OpenBridge = Callable[[SessionContext, Callable[[str], None]], Bridge]
"""`(session, send)`: the bridge of one session; `send` takes one encoded frame for the app."""


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


class LogicProcess(asyncio.SubprocessProtocol):
    """The child process of one app. Made by `start`; once gone it never comes back."""

    def __init__(self, app_scope: str, limits: LogicLimits) -> None:
        self.app_scope = app_scope
        self.limits = limits
        self.gone = False
        self.sessions: dict[str, LogicContainer] = {}
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
        """Starts the process: no environment, no inherited descriptors, own session. Raises ContainerFailed."""
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

    def attach(self, container: LogicContainer) -> str:
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
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        stdin = transport.get_pipe_transport(0)
        assert isinstance(stdin, asyncio.WriteTransport)
        self._stdin = stdin

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            text = data.decode("utf-8", "replace")[:_LOGGED_LINE_CHARS]
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

    def connection_lost(self, exc: Exception | None) -> None:
        self._bury()
        if not self._exited.done():
            self._exited.set_result(None)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
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
            try:
                self._transport.kill()
            except ProcessLookupError:
                pass
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


class LogicContainer:
    """One app session in a LogicProcess (implements Container)."""

    def __init__(self, process: LogicProcess, events: ContainerEvents, open_bridge: OpenBridge) -> None:
        self._process = process
        self._events = events
        self._open_bridge = open_bridge
        self._session: SessionContext | None = None
        self._bridge: Bridge | None = None
        self._sid = ""
        self._ready: asyncio.Future[frozenset[tuple[str, str]]] | None = None
        self._calls: dict[str, asyncio.Future[Outcome]] = {}
        self._open: set[str] = set()
        self._alive = False
        self.refused = 0
        self.on_gone: Callable[[LogicContainer], None] | None = None

    @property
    def session(self) -> SessionContext:
        assert self._session is not None
        return self._session

    @property
    def alive(self) -> bool:
        return self._alive

    @property
    def busy(self) -> bool:
        """Whether a call is in flight or left open."""
        return bool(self._calls or self._open)

    async def start(self, app: InstalledApp, session: SessionContext) -> None:
        """See Container.start. Raises ContainerFailed."""
        if app.logic is None:
            raise ContainerFailed("no_container", f"{app.app_scope} has no logic.js")
        self._session = session
        process = self._process
        process.load(app)
        self._sid = process.attach(self)
        self._bridge = self._open_bridge(session, self._send)
        self._ready = asyncio.get_running_loop().create_future()
        init = encode("init", _init_payload(session))
        limits = process.limits
        process.send_line(f"S{self._sid} {limits.memory_bytes} {limits.turn_seconds} {init}")
        if process.gone:
            self.context_gone("crashed", None, "the app's process ended")
        try:
            registered = await self._ready
            _check_handlers(app, registered)
        except BaseException:
            await self.close()
            raise
        self._alive = True

    async def invoke(self, call: Invocation) -> Outcome:
        """See Container.invoke."""
        return await self.submit(call)

    def submit(self, call: Invocation) -> asyncio.Future[Outcome]:
        """As `invoke`, and the call is on its way when this returns, so that calls keep their order."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if not self._alive:
            future.set_result(Failed(ErrorCode.HANDLER_FAILED, "the app is not running", "crashed"))
            return future
        if call.call_id in self._calls or call.call_id in self._open:
            raise ValueError(f"call {call.call_id} is already with the app")
        self._calls[call.call_id] = future
        payload = {
            "call_id": call.call_id,
            "method": call.method,
            "contract_version": call.contract_version,
            "params": call.params,
        }
        self._process.send_line(f"I{self._sid} {encode('tool.invoke', payload)}")
        return future

    async def cancel(self, call_id: str) -> None:
        """See Container.cancel."""
        if self._alive and (call_id in self._calls or call_id in self._open):
            self._send(encode("tool.cancel", {"call_id": call_id}))

    async def close(self) -> None:
        """See Container.close."""
        self._end("crashed", None, "the app was closed", told=False)
        self._process.detach(self._sid)

    # ── what the process reports ────────────────────────────────────────────────────────────────────────────

    def take(self, text: str) -> None:
        """One frame of the app."""
        try:
            frame = decode(text, Direction.TO_RUNTIME, strict=False)
        except FrameRefused as refused:
            self._refuse(text, refused)
            return
        if isinstance(frame, Answer):
            self.refused += 1
            return
        handler = _TOOL_FRAMES.get(frame.type)
        if handler is not None:
            handler(self, frame.payload)
        elif frame.type == "diagnostics.log":
            message = frame.payload["message"][:_LOGGED_LINE_CHARS]
            _log.info("app_log", **self._log_ids(), level_of_app=frame.payload["level"][:16], message=message)
        elif self._bridge is not None:
            self._bridge.handle(frame)

    def context_gone(self, reason: str, call_id: str | None, message: str) -> None:
        """The context or the process ended on its own."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(ContainerFailed("app_start_failed", message))
            return
        self._end(reason, call_id, message, told=True)

    def _end(self, reason: str, call_id: str | None, message: str, *, told: bool) -> None:
        was_alive, self._alive = self._alive, False
        if self._bridge is not None:
            self._bridge.close()
            self._bridge = None
        calls, self._calls = self._calls, {}
        # A limit is the fault of the call that ran last; when that one had already ended, nobody can tell.
        limit = reason in ("time_limit", "memory_limit")
        for name, future in calls.items():
            why = reason if limit and (name == call_id or call_id not in calls) else "crashed"
            if not future.done():
                future.set_result(Failed(ErrorCode.HANDLER_FAILED, message, why))
        self._open.clear()
        if self.on_gone is not None:
            self.on_gone(self)
        if was_alive and told:
            self._events.exited(self.session, reason)

    def _refuse(self, text: str, refused: FrameRefused) -> None:
        """A frame that is not taken is counted; a call it was about ends, a request it was is answered."""
        self.refused += 1
        _log.warning("bridge_refused", **self._log_ids(), code=refused.code, why=refused.message[:200])
        if refused.request_id is not None:
            self._send(encode_error(refused.request_id, refused))
            return
        call_id = call_named_in(text)
        if call_id is not None:
            self._settle(call_id, Failed(ErrorCode.HANDLER_FAILED, refused.message, "output_invalid"))

    def _registered(self, payload: dict[str, Any]) -> None:
        if self._ready is None or self._ready.done():
            self.refused += 1
            return
        self._ready.set_result(
            frozenset((tool["method"], tool["contract_version"]) for tool in payload["tools"])
        )

    def _completed(self, payload: dict[str, Any]) -> None:
        self._settle(payload["call_id"], Completed(payload["result"]))

    def _failed(self, payload: dict[str, Any]) -> None:
        reason = payload["reason"]
        code = ErrorCode.CANCELLED if reason == "cancelled" else ErrorCode.HANDLER_FAILED
        self._settle(payload["call_id"], Failed(code, payload["message"][:500], reason))

    def _left_open(self, payload: dict[str, Any]) -> None:
        future = self._calls.pop(payload["call_id"], None)
        if future is None:
            self.refused += 1
            return
        self._open.add(payload["call_id"])
        if not future.done():
            future.set_result(Open())

    def _progressed(self, payload: dict[str, Any]) -> None:
        call_id = payload["call_id"]
        if call_id in self._calls or call_id in self._open:
            self._events.progress(self.session, call_id, payload["number"], payload["value"])

    def _settle(self, call_id: str, outcome: Completed | Failed) -> None:
        future = self._calls.pop(call_id, None)
        if future is not None:
            if not future.done():
                future.set_result(outcome)
        elif call_id in self._open:
            self._open.discard(call_id)
            self._events.closed(self.session, call_id, outcome)
        else:
            self.refused += 1  # a second end of a call, or of a call that never was

    def _send(self, text: str) -> None:
        self._process.send_line(f"I{self._sid} {text}")

    def _log_ids(self) -> dict[str, str]:
        session = self.session
        return {
            "app_scope": session.app_scope,
            "app_session_id": session.app_session_id,
            "conversation_id": session.conversation_id,
        }


_TOOL_FRAMES: dict[str, Callable[[LogicContainer, dict[str, Any]], None]] = {
    "tool.complete": LogicContainer._completed,  # pyright: ignore[reportPrivateUsage]
    "tool.fail": LogicContainer._failed,  # pyright: ignore[reportPrivateUsage]
    "tool.open": LogicContainer._left_open,  # pyright: ignore[reportPrivateUsage]
    "tool.progress": LogicContainer._progressed,  # pyright: ignore[reportPrivateUsage]
    "tools.register": LogicContainer._registered,  # pyright: ignore[reportPrivateUsage]
}


def _init_payload(session: SessionContext) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "app_scope": session.app_scope,
        "app_session_id": session.app_session_id,
        "conversation_id": session.conversation_id,
        "app_version": session.app_version,
        "features": list(SDK_FEATURES),
    }
    if session.instance_id is not None:
        payload["instance_id"] = session.instance_id
    return payload


def _check_handlers(app: InstalledApp, registered: frozenset[tuple[str, str]]) -> None:
    """Ready means: exactly the declared handlers are there. Raises ContainerFailed."""
    declared = {
        (tool.method, tool.contract_version) for tool in app.tools if tool.delivery is Delivery.MINIAPP_SDK
    }
    if missing := sorted(declared - registered):
        raise ContainerFailed("app_start_failed", f"no handler for {missing[0][0]}@{missing[0][1]}")
    if extra := sorted(registered - declared):
        raise ContainerFailed("app_start_failed", f"a handler for the undeclared {extra[0][0]}@{extra[0][1]}")
