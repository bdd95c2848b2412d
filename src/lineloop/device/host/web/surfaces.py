"""One loaded surface: its handshake, its state, what it may ask, and how it is told to close.

Decides that nothing is taken before the one `hello` with the launch's nonce, and that a second hello, too
many frames or too many bad ones end the surface. Identity is the launch: its instance is given, never read
from a frame (design: apps 4.4, 4.5).
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from lineloop.device.bridge.frames import (
    Answer,
    Direction,
    Frame,
    FrameRefused,
    decode,
    encode,
    encode_error,
    encode_ok,
)
from lineloop.device.bridge.session_bridge import MAX_SUBSCRIPTIONS, SessionBridge
from lineloop.device.containers.port import SessionContext
from lineloop.device.host.port import Stage
from lineloop.device.host.web.launches import Launch
from lineloop.device.store import shell as store
from lineloop.device.store.workspace import SurfaceFacts, surface_state
from lineloop.kit import json
from lineloop.kit.limits import TokenBucket
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LimitExceeded, LoopError

FEATURES = ("app.lifecycle.v1", "app.session-data.v1", "app.inbox.v1", "surface.state.v1")
FRAMES_PER_SECOND = 50.0
FRAMES_AT_ONCE = 400
"""Twice what the shell's Worker lets through, so that only what went past it is stopped here."""

MAX_REFUSED = 50
MAX_SNAPSHOT_BYTES = 64 * 1024
MAX_DEFER_MS = 5_000
CLOSING_MS = 250
LOGS_PER_SECOND = 5.0
LOGS_AT_ONCE = 20
_LIFECYCLE = {"foreground": "foreground", "suspended": "suspend"}

_log = structlog.get_logger(__name__)


class Surface:
    """A launch and its session. `send` takes one bridge frame; `end(reason)` is called when the surface has
    to go because of what it did.
    """

    def __init__(
        self,
        launch: Launch,
        context: SessionContext,
        stage: Stage,
        tasks: Tasks,
        send: Callable[[str], None],
        end: Callable[[str], None],
    ) -> None:
        clock = stage.foundation.clock
        self.launch = launch
        self.context = context
        self._stage = stage
        self._clock = clock
        self._tasks = tasks
        self._send = send
        self._end = end
        self._frames = TokenBucket(FRAMES_PER_SECOND, FRAMES_AT_ONCE, clock)
        self._logs = TokenBucket(LOGS_PER_SECOND, LOGS_AT_ONCE, clock)
        self._greeted = self._opened = self._closed = False
        self._refused = 0
        self._facts: SurfaceFacts | None = None
        self._asked_at = 0.0
        self._told_state: str | None = None
        self._told_phase: str | None = None
        self._subscriptions: list[str] = []
        self.closing_until: float | None = None
        self._closing = asyncio.Event()
        self._bridge = SessionBridge(
            context,
            send,
            session_data=stage.session_data,
            inbox=stage.inbox,
            tasks=tasks,
            more={
                "state.get": self._state_get,
                "state.subscribe": self._state_subscribe,
                "state.unsubscribe": self._state_unsubscribe,
                "ui.action": self._ui_action,
                "lifecycle.snapshot": self._snapshot,
                "lifecycle.defer_close": self._defer_close,
            },
            told={"surface.event": self._surface_event, "diagnostics.log": self._diagnostics},
        )

    # ── frames ──────────────────────────────────────────────────────────────────────────────────────────────

    def receive(self, text: str) -> None:
        """One frame of the surface, as its page passed it on."""
        if self._closed:
            return
        if not self._frames.take():
            self._end("flood")
            return
        try:
            frame = decode(text, Direction.TO_RUNTIME)
        except FrameRefused as refused:
            self._refuse(refused, refused.request_id)
            return
        if isinstance(frame, Answer):
            self._refuse(FrameRefused("nothing was asked"), None)
        elif frame.type == "hello":
            self._hello(frame)
        elif not self._greeted:
            self._refuse(FrameRefused("hello comes first"), frame.id)
        else:
            self._bridge.handle(frame)

    def _refuse(self, error: LoopError, request_id: str | None) -> None:
        self._refused += 1
        _log.warning(
            "surface_refused",
            app_scope=self.context.app_scope,
            instance_id=self.context.instance_id,
            code=str(error.code),
            why=error.message[:200],
        )
        if request_id is not None:
            self._send(encode_error(request_id, error))
        if self._refused >= MAX_REFUSED:
            self._end("protocol")

    def _hello(self, frame: Frame) -> None:
        assert frame.id is not None
        nonce = frame.payload.get("nonce", "")
        if self._greeted:
            error = LoopError("this surface has said hello", code=ErrorCode.ALREADY_CONNECTED)
            self._refuse(error, frame.id)
            self._end("protocol")
        elif not hmac.compare_digest(nonce.encode(), self.launch.nonce.encode()):
            self._refuse(LoopError("this hello is of another launch", code=ErrorCode.FORBIDDEN), frame.id)
            self._end("protocol")
        else:
            self._greeted = True
            self._send(encode_ok(frame.id, {"features": list(FEATURES)}))
            self._tasks.spawn(self._open(), name="surface opened")

    async def _open(self) -> None:
        instance_id = self.context.instance_id or ""
        runtime_id = self._stage.foundation.runtime_id
        try:
            kept = await self._stage.foundation.read(lambda tx: store.snapshot(tx, runtime_id, instance_id))
        except LoopError:
            kept = None
        if self._closed:
            return
        context = self.context
        init: dict[str, Any] = {
            "app_scope": context.app_scope,
            "app_session_id": context.app_session_id,
            "conversation_id": context.conversation_id,
            "app_version": context.app_version,
            "instance_id": instance_id,
            "features": list(FEATURES),
            "state": self._state(),
        }
        self._send(encode("init", init))
        self._send(encode("lifecycle.start", {}))
        if kept is not None:
            self._send(encode("lifecycle.restore", {"snapshot": json.loads(kept)}))
        self._opened = True
        self._tell_phase()

    # ── state ───────────────────────────────────────────────────────────────────────────────────────────────

    def show(self, facts: SurfaceFacts) -> None:
        """What the surface is about has changed, or may have."""
        self._facts = facts
        if not self._opened or self._closed:
            return
        told = self._comparable()
        if told != self._told_state:
            self._told_state = told
            state = self._state()
            for name in self._subscriptions:
                self._send(encode("state.changed", {"subscription": name, "state": state}))
        self._tell_phase()

    def _state(self) -> dict[str, Any] | None:
        facts = self._facts
        if facts is None:
            return None
        operation = facts.operation
        state = surface_state(
            facts,
            now_ms=self._clock.now_ms(),
            elapsed_ms=self._stage.elapsed_ms(operation) if operation is not None else 0,
            language=self.launch.language,
        )
        return state | {"theme": self.launch.theme} if self.launch.theme is not None else state

    def _comparable(self) -> str:
        """The state without what changes by time alone."""
        facts = self._facts
        assert facts is not None
        operation = facts.operation
        return json.dumps(
            [
                facts.instance.state,
                facts.activation.state if facts.activation is not None else None,
                [operation.operation_id, operation.state] if operation is not None else None,
            ]
        )

    def _tell_phase(self) -> None:
        assert self._facts is not None
        state = self._facts.instance.state
        if self.closing_until is not None or state in ("stopping", "stopped", "failed"):
            return
        phase = _LIFECYCLE.get(state, "background")
        if phase != self._told_phase:
            self._told_phase = phase
            self._send(encode(f"lifecycle.{phase}", {}))

    async def _state_get(self, _: dict[str, Any]) -> Any:
        return self._state()

    async def _state_subscribe(self, payload: dict[str, Any]) -> Any:
        name = payload["subscription"]
        if name in self._subscriptions:
            raise LoopError("this subscription exists", code=ErrorCode.BRIDGE_INVALID)
        if len(self._subscriptions) >= MAX_SUBSCRIPTIONS:
            raise LoopError("too many subscriptions", code=ErrorCode.LIMIT_EXCEEDED)
        self._subscriptions.append(name)
        if self._facts is not None:
            self._told_state = self._comparable()
        self._send(encode("state.changed", {"subscription": name, "state": self._state()}))
        return {"subscription": name}

    async def _state_unsubscribe(self, payload: dict[str, Any]) -> Any:
        if payload["subscription"] in self._subscriptions:
            self._subscriptions.remove(payload["subscription"])
        return {}

    # ── what it asks and tells ──────────────────────────────────────────────────────────────────────────────

    async def _ui_action(self, payload: dict[str, Any]) -> Any:
        instance_id = self.context.instance_id or ""
        new = await self._stage.ui_actions.dispatch(
            instance_id, payload["id"], payload["action"], payload["params"]
        )
        return {"id": payload["id"], "repeated": not new}

    async def _snapshot(self, payload: dict[str, Any]) -> Any:
        data = json.dumps(payload["data"])
        if len(data.encode()) > MAX_SNAPSHOT_BYTES:
            raise LimitExceeded("a snapshot has at most 64 KiB", detail={"max": MAX_SNAPSHOT_BYTES})
        foundation = self._stage.foundation
        instance_id, now = self.context.instance_id or "", self._clock.now_ms()
        if not await foundation.write(
            lambda tx: store.save_snapshot(tx, foundation.runtime_id, instance_id, data, now)
        ):
            raise LoopError("this instance has ended", code=ErrorCode.NOT_FOUND)
        return {}

    def _surface_event(self, payload: dict[str, Any]) -> None:
        self._tasks.spawn(self._note_event(payload["name"], payload["data"]), name="surface event")

    async def _note_event(self, name: str, data: Any) -> None:
        try:
            await self._stage.ui_actions.note_event(self.context.instance_id or "", name, data)
        except LoopError as error:
            self._refuse(error, None)
        except Exception as error:
            _log.warning("surface_event_lost", app_scope=self.context.app_scope, error=repr(error))

    def _diagnostics(self, payload: dict[str, Any]) -> None:
        if self._logs.take():
            _log.info(
                "surface_says",
                app_scope=self.context.app_scope,
                instance_id=self.context.instance_id,
                level=payload["level"][:16],
                message=payload["message"][:1000],
            )

    # ── closing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def _defer_close(self, payload: dict[str, Any]) -> Any:
        if self.closing_until is None:
            raise LoopError("this surface is not being closed", code=ErrorCode.ILLEGAL_TRANSITION)
        wait_ms = min(payload["wait_ms"], MAX_DEFER_MS)
        self.closing_until = max(self.closing_until, self._asked_at + wait_ms / 1000)
        self._closing.set()
        return {"wait_ms": wait_ms}

    async def be_closed(self, deferred: Callable[[], None]) -> None:
        """Tells the surface that it goes, and returns when it has gone or had its time. `deferred` is called
        when it has asked for more.
        """
        if not self._opened or self._closed:
            return
        self._asked_at = self._clock.monotonic()
        self.closing_until = self._asked_at + CLOSING_MS / 1000
        self._send(encode("lifecycle.closing", {"wait_ms": CLOSING_MS, "reason": "closed"}))
        while not self._closed:
            left = self.closing_until - self._clock.monotonic()
            if left <= 0:
                return
            until = self.closing_until
            await self._wait(left)
            if self.closing_until != until:
                deferred()

    async def _wait(self, seconds: float) -> None:
        """Until that much time has passed, it asks for more, or it is gone."""
        self._closing.clear()
        waits: list[Awaitable[Any]] = [self._clock.sleep(seconds), self._closing.wait()]
        tasks = [self._tasks.spawn(_awaited(wait), name="surface closing") for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    @property
    def wait_ms(self) -> int | None:
        """How long its closing is still waited for; None when it is not being closed."""
        if self.closing_until is None:
            return None
        return max(0, round((self.closing_until - self._clock.monotonic()) * 1000))

    def close(self) -> None:
        """Nothing more is taken or sent. Idempotent."""
        self._closed = True
        self._bridge.close()
        self._closing.set()


async def _awaited(wait: Awaitable[Any]) -> None:
    await wait
