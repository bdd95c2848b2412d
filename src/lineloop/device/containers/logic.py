"""The logic container: one app session as a JavaScript context of its app's process.

Decides how a session is opened and which outcome a call gets, also when its context or process dies. Leaves
to others: when to start (pool and core), what frames mean beyond tools (session bridge), how long a tool may
take (core; only a single turn of code is bounded here).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
from lineloop.device.containers.child import LogicProcess
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

_LOGGED_CHARS = 2000
SDK_FEATURES = ("app.lifecycle.v1", "app.tools.v1", "app.session-data.v1", "app.inbox.v1", "surface.state.v1")


class Bridge(Protocol):
    """Takes every frame of an app session that is not about tools (implemented by SessionBridge)."""

    def handle(self, frame: Frame) -> None: ...

    def close(self) -> None: ...


OpenBridge = Callable[[SessionContext, Callable[[str], None]], Bridge]
"""`(session, send)`: the bridge of one session; `send` takes one encoded frame for the app."""


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
            message = frame.payload["message"][:_LOGGED_CHARS]
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
