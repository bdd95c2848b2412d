"""One visit of a page, from its hello to its end: what it may ask, and what comes of it.

Decides that nothing is taken before a hello that lets the page in, that every request gets exactly one
answer, and what ends a visit. Leaves who holds the lease and what is shown to the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog

from lineloop.device.bridge.shapes import (
    Answer,
    Direction,
    Frame,
    FrameRefused,
    encode,
    encode_error,
    encode_ok,
)
from lineloop.device.decide.intents import IntentKind
from lineloop.device.host.port import CoreSession
from lineloop.device.host.web.answers import Receive, Send
from lineloop.device.host.web.frames import FRAME, MAX_PAGE_FRAME_BYTES, decode
from lineloop.device.host.web.pace import STRAY, Pace
from lineloop.device.host.web.pages import Page, PageGone
from lineloop.device.host.web.person_requests import PersonRequests
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.database import DatabaseError
from lineloop.kit.json_size import is_larger, size_of_text
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import (
    InvalidRequest,
    LimitExceeded,
    LoopError,
    NotFound,
    StorageUnavailable,
    Unauthorized,
)

if TYPE_CHECKING:
    from lineloop.device.host.web.host import WebHost

VERSION = 3
KEYLESS_VERSION = 2
"""Keys of that version have ended, and its pages know what to show then."""
HELLO_SECONDS = 5.0
HEARTBEAT_MS = 15_000
MAX_REQUESTS = 200
MAX_SESSIONS = 16
MAX_REFUSED = 50
MAX_KEY_BYTES = 4096

UNAUTHORIZED = 4401
TOO_LATE = 4408
NO_HELLO = 4400
FULL = 4429
BAD_FRAMES = 4422
FLOOD = 4430

_CLOSES_WITH = {ErrorCode.UNAUTHORIZED: UNAUTHORIZED, ErrorCode.PROTOCOL_VERSION_UNSUPPORTED: NO_HELLO}

_log = structlog.get_logger(__name__)

Request = Callable[[dict[str, Any]], Awaitable[Any]]


class Visit:
    """One WebSocket of the shell, already accepted."""

    def __init__(self, host: WebHost, clock: Clock, receive: Receive, send: Send, browser: str = "") -> None:
        self._host = host
        self._clock = clock
        self._receive = receive
        self._socket = send
        self._browser = browser
        self._sessions: dict[str, CoreSession] = {}
        self._session_names = 0
        self._refused = 0
        self._pace = Pace(clock)
        self._requests: dict[str, Request] = {
            "intent": self._intent,
            "start": self._start,
            "apps.launch": self._launch,
            "surface.open": self._surface_open,
            "consent.answer": self._consent,
            "session.open": self._session_open,
            "models.find": self._models_find,
            "models.choose": self._models_choose,
            **PersonRequests(host, lambda: self._page).requests,
        }
        self._events: dict[str, Callable[[dict[str, Any]], None]] = {
            "page": self._page_changed,
            "surface.shown": self._shown,
            "surface.close": self._surface_close,
            "session.close": self._session_close,
            "frame": self._frame,
        }

    async def run(self) -> None:
        """Until the page is gone."""
        code = 1000
        try:
            async with Tasks("page") as tasks:
                self._tasks = tasks
                page = await self._admit()
                self._page = page
                try:
                    code = await self._talk(page)
                finally:
                    for session in self._sessions.values():
                        session.close()
                    self._host.leave(page)
                    self._host.note_soon(page, IntentKind.DISCONNECTED)
        except PageGone as gone:
            code = gone.code
        with suppress(Exception):
            await self._socket({"type": "websocket.close", "code": code})

    async def _talk(self, page: Page) -> int:
        """Reads and writes until one of them ends; the code to close with."""
        writing = self._tasks.spawn(self._write(page), name="write")
        reading = self._tasks.spawn(self._read(page), name="read")
        await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
        if reading.done() and not writing.done():
            # What a bad frame or the page's own end leaves to be said is said before the connection ends.
            page.leave("gone", 1000)
            await asyncio.wait({writing}, timeout=1.0)
        return writing.result() if writing.done() else 1000

    async def _write(self, page: Page) -> int:
        try:
            await page.run(self._send_text)
        except PageGone as gone:
            return gone.code
        return 1000

    async def _send_text(self, text: str) -> None:
        try:
            await self._socket({"type": "websocket.send", "text": text})
        except (OSError, RuntimeError) as error:
            # What a server raises for a connection that has ended; nobody is there to be told anything.
            raise PageGone("gone", 1000) from error

    async def _next(self) -> str | None:
        """The next text; None when the page is gone. Raises PageGone for what is no text or too large."""
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return None
        text = message.get("text")
        if text is None:
            raise PageGone("frames are text", 1003)
        if is_larger(text, MAX_PAGE_FRAME_BYTES):
            raise PageGone("a frame was too large", 1009)
        return text

    # ── letting in ──────────────────────────────────────────────────────────────────────────────────────────

    async def _admit(self) -> Page:
        """Raises PageGone for a page that is not let in; it has been told why."""
        frame = await self._first("hello")
        request_id, hello = str(frame.id), frame.payload
        host = self._host
        await self._turn_away_when_full()
        try:
            _check_versions(hello["versions"])
            challenge = await host.access.challenge(hello.get("name"), hello.get("nonce"))
            await self._send_text(encode_ok(request_id, challenge.to_wire()))
            answer = await self._first("prove")
            request_id = str(answer.id)
            # Others may have come since hello. A page that is turned away now keeps its code.
            await self._turn_away_when_full()
            with host.arriving():
                key_name = await host.access.admit(challenge, answer.payload["proof"], self._browser)
                return await self._greet(request_id, hello, key_name)
        except LoopError as error:
            await self._say_error(request_id, error)
            raise PageGone("not let in", _CLOSES_WITH.get(error.code, 1011)) from None
        except DatabaseError as error:
            await self._say_error(request_id, StorageUnavailable(str(error)))
            raise PageGone("not let in", 1011) from None

    async def _turn_away_when_full(self) -> None:
        """Raises PageGone."""
        if self._host.full:
            await self._bye("not_now", 2_000)
            raise PageGone("not now", FULL)

    async def _first(self, kind: str) -> Frame:
        """The request that has to come now. Raises PageGone for everything else, which has been answered."""
        try:
            text = await with_timeout(self._clock, HELLO_SECONDS, self._next())
        except TimeoutError:
            await self._bye("no_hello", 0)
            raise PageGone("no hello", TOO_LATE) from None
        if text is None:
            raise PageGone("gone", 1000)
        try:
            frame = decode(text, Direction.TO_RUNTIME)
            if isinstance(frame, Answer) or frame.type != kind:
                asked = None if isinstance(frame, Answer) else frame.id
                raise FrameRefused(f"{kind} comes first", request_id=asked)
        except FrameRefused as refused:
            await self._say_error(refused.request_id, refused)
            await self._bye(str(refused.code), 0)
            raise PageGone("no hello", NO_HELLO) from None
        return frame

    async def _bye(self, reason: str, retry_ms: int) -> None:
        await self._send_text(encode("bye", {"reason": reason, "retry_ms": retry_ms}))

    async def _greet(self, request_id: str, hello: dict[str, Any], key_name: str) -> Page:
        host = self._host
        page = host.new_page(hello["tab"], hello["language"])
        page.key_name = key_name
        await self._send_text(encode_ok(request_id, self._welcome(page)))
        again = host.seen_before(page)
        self._set_visible(page, visible=hello["visible"], focused=hello["focused"])
        host.enter(page)
        if again:
            host.note_soon(page, IntentKind.RELOADED)
        return page

    def _welcome(self, page: Page) -> dict[str, Any]:
        stage = self._host.stage
        return {
            "host_session_id": page.host_session_id,
            "content_origin": self._host.content.origin,
            "device_key": stage.foundation.runtime_id,
            "person": stage.person.to_wire() if stage.person is not None else None,
            "heartbeat_ms": HEARTBEAT_MS,
            "model": stage.models.current().to_wire() if stage.models is not None else None,
        }

    async def _say_error(self, request_id: str | None, error: LoopError) -> None:
        if request_id is not None:
            await self._send_text(encode_error(request_id, error))

    # ── frames ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _read(self, page: Page) -> None:
        try:
            while (text := await self._next()) is not None:
                self._take(page, text)
        except PageGone as gone:
            page.leave(gone.reason, gone.code)

    def _take(self, page: Page, text: str) -> None:
        try:
            frame = decode(text, Direction.TO_RUNTIME)
        except FrameRefused as refused:
            self._refuse(page, refused, refused.request_id)
            return
        if isinstance(frame, Answer) or frame.type in ("hello", "prove"):
            request_id = None if isinstance(frame, Answer) else frame.id
            error = LoopError("this page has said hello", code=ErrorCode.ALREADY_CONNECTED)
            self._refuse(page, error, request_id)
        elif wait_ms := self._wait_ms(page, frame):
            self._slow_down(page, frame, wait_ms)
        elif frame.id is None:
            try:
                self._events[frame.type](frame.payload)
            except LoopError as error:
                self._refuse(page, error, None)
        elif page.running >= MAX_REQUESTS:
            page.send(encode_error(frame.id, LoopError("too many requests", code=ErrorCode.OVERLOADED)))
        else:
            page.running += 1
            self._tasks.spawn(self._answer(page, frame, frame.id), name=frame.type)

    def _wait_ms(self, page: Page, frame: Frame) -> int:
        """How long the page should have waited with this frame; a surface has its own rate."""
        launch = frame.payload.get("launch") if frame.type == FRAME else None
        if launch is None:
            return self._pace.wait_ms(frame.type)
        return 0 if self._host.surface_of(page, launch) is not None else self._pace.wait_ms(STRAY)

    def _slow_down(self, page: Page, frame: Frame, wait_ms: int) -> None:
        """The page sends too much: this frame counts for nothing, and the page stays unless it goes on."""
        if not self._pace.is_borne():
            page.leave("flood", FLOOD)
        elif frame.id is not None:
            error = LoopError(
                "this page asks too often", code=ErrorCode.RATE_LIMITED, detail={"retry_ms": wait_ms}
            )
            page.send(encode_error(frame.id, error))
        elif self._pace.is_told():
            code = str(ErrorCode.RATE_LIMITED)
            page.send(encode("refused", {"type": frame.type, "code": code, "retry_ms": wait_ms}))

    async def _answer(self, page: Page, frame: Frame, request_id: str) -> None:
        try:
            answer = encode_ok(request_id, await self._requests[frame.type](frame.payload))
        except LoopError as error:
            answer = encode_error(request_id, error)
        except DatabaseError as error:
            answer = encode_error(request_id, StorageUnavailable(str(error)))
        except Exception:
            _log.exception("page_request_failed", type=frame.type)
            answer = encode_error(request_id, LoopError("the device failed to answer"))
        finally:
            page.running -= 1
        page.send(answer)

    def _refuse(self, page: Page, error: LoopError, request_id: str | None) -> None:
        self._refused += 1
        _log.warning("page_frame_refused", code=str(error.code), why=error.message[:200])
        if request_id is not None:
            page.send(encode_error(request_id, error))
        if self._refused >= MAX_REFUSED:
            page.leave("too many bad frames", BAD_FRAMES)

    # ── where the person is ─────────────────────────────────────────────────────────────────────────────────

    def _page_changed(self, payload: dict[str, Any]) -> None:
        self._set_visible(self._page, visible=payload["visible"], focused=payload["focused"])

    def _set_visible(self, page: Page, *, visible: bool, focused: bool) -> None:
        hidden = page.visible and not visible
        page.visible, page.focused = visible, visible and focused
        self._host.lease.changed(page.host_session_id, visible=visible, focused=focused)
        self._host.changed()
        if hidden:
            self._host.note_soon(page, IntentKind.HIDDEN)

    async def _used(self) -> str:
        """The person did something here, so this page holds the lease now. Raises LoopError lease_lost for a
        page that nobody can see.
        """
        if not self._host.lease.used(self._page.host_session_id):
            raise LoopError("this page is not visible", code=ErrorCode.LEASE_LOST)
        self._host.changed()
        await self._host.settle_lease()
        return self._page.host_session_id

    async def _intent(self, payload: dict[str, Any]) -> Any:
        kind, instance_id = IntentKind(payload["kind"]), payload.get("instance_id")
        if kind in (IntentKind.SHOW_APP, IntentKind.CLOSE_APP) and instance_id is None:
            raise InvalidRequest("this intent is about an instance", pointer="/instance_id")
        host_session_id = await self._used()
        await self._host.stage.reports.reported(
            host_session_id, kind, payload["conversation_id"], instance_id
        )
        return {}

    async def _start(self, payload: dict[str, Any]) -> Any:
        """What this page shows first; `{"entry","app_scope","conversation_id","instance_id","reason"}`."""
        host_session_id = await self._used()
        conversation_id = payload.get("conversation_id")
        await self._require_conversation(conversation_id)
        entry = await self._host.stage.reports.begun(
            host_session_id, payload.get("app_scope"), conversation_id
        )
        self._host.begun_with(entry)
        return {
            "entry": str(entry.kind),
            "app_scope": entry.app_scope,
            "conversation_id": entry.conversation_id,
            "instance_id": entry.instance_id,
            "reason": entry.reason,
        }

    async def _require_conversation(self, conversation_id: str | None) -> None:
        """An app belongs to a conversation: in front of one that does not exist nobody could ever find it."""
        known = self._host.stage.knows_conversation
        if conversation_id is not None and known is not None and not await known(conversation_id):
            raise NotFound("there is no such conversation", code=ErrorCode.CONVERSATION_NOT_FOUND)

    async def _launch(self, payload: dict[str, Any]) -> Any:
        host_session_id = await self._used()
        stage, conversation_id = self._host.stage, payload["conversation_id"]
        await self._require_conversation(conversation_id)
        instance_id = await stage.reports.app_chosen(host_session_id, payload["app_scope"], conversation_id)
        return {"instance_id": instance_id}

    def _shown(self, payload: dict[str, Any]) -> None:
        self._tasks.spawn(self._confirm(payload), name="surface.shown")

    async def _confirm(self, payload: dict[str, Any]) -> None:
        try:
            await self._host.confirm(
                self._page, payload["instance_id"], payload["activation_id"], payload["generation"]
            )
        except Exception as error:
            # The page is told again that this is not confirmed, and says it again.
            _log.warning("confirmation_not_stored", error=repr(error))
            self._page.untold("workspace")
        self._host.changed()

    async def _consent(self, payload: dict[str, Any]) -> Any:
        await self._host.stage.reports.consent_answered(payload["call_ref"], allowed=payload["allowed"])
        self._host.consent_given(payload["call_ref"])
        return {}

    # ── surfaces and core sessions ──────────────────────────────────────────────────────────────────────────

    async def _surface_open(self, payload: dict[str, Any]) -> Any:
        surface = await self._host.open_surface(self._page, payload["instance_id"], payload.get("theme"))
        launch = surface.launch
        url = f"{self._host.content.origin}{launch.path}"
        return {"launch": launch.id, "nonce": launch.nonce, "url": url}

    def _surface_close(self, payload: dict[str, Any]) -> None:
        if self._host.surface_of(self._page, payload["launch"]) is not None:
            self._host.end_surface(payload["launch"], payload["reason"])

    async def _session_open(self, payload: dict[str, Any]) -> Any:
        if len(self._sessions) >= MAX_SESSIONS:
            raise LimitExceeded("this page has too many sessions open", detail={"max": MAX_SESSIONS})
        self._session_names += 1
        name = f"s{self._session_names}"
        page = self._page
        self._sessions[name] = self._host.stage.open_core(
            payload["app_scope"],
            lambda text: page.send(encode("frame", {"session": name, "text": text})),
            drained=page.drained,
        )
        return {"session": name}

    def _session_close(self, payload: dict[str, Any]) -> None:
        session = self._sessions.pop(payload["session"], None)
        if session is not None:
            session.close()

    def _frame(self, payload: dict[str, Any]) -> None:
        """A frame of a session that has ended meanwhile is nobody's fault."""
        if ("session" in payload) == ("launch" in payload):
            raise FrameRefused("a frame is of a session or of a launch")
        if "session" in payload:
            session = self._sessions.get(payload["session"])
            if session is not None:
                session.receive(payload["text"])
            return
        surface = self._host.surface_of(self._page, payload["launch"])
        if surface is not None:
            surface.receive(payload["text"])

    # ── models ──────────────────────────────────────────────────────────────────────────────────────────────

    async def _models_find(self, _: dict[str, Any]) -> Any:
        return {"servers": [server.to_wire() for server in await self._models().find()]}

    async def _models_choose(self, payload: dict[str, Any]) -> Any:
        key = payload.get("key")
        if key is not None and size_of_text(key) > MAX_KEY_BYTES:
            detail = {"limit": "key_bytes", "max": MAX_KEY_BYTES}
            raise LimitExceeded("this is longer than any key", detail=detail)
        chosen = await self._models().choose(payload["target"], key)
        return {"model": chosen.to_wire()}

    def _models(self) -> Any:
        models = self._host.stage.models
        if models is None:
            raise LoopError("models are not chosen on this device", code=ErrorCode.UNSUPPORTED)
        return models


def _check_versions(versions: list[int]) -> None:
    """Raises LoopError for a page that has no version in common with the device."""
    if VERSION in versions:
        return
    if KEYLESS_VERSION in versions:
        raise Unauthorized("the keys of older pages have ended; open the link that `lineloop open` prints")
    raise LoopError(
        "this page is of another version than the device: reload it",
        code=ErrorCode.PROTOCOL_VERSION_UNSUPPORTED,
        detail={"versions": [VERSION]},
    )
