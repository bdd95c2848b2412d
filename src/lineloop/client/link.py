"""The link: one connection over which a participant's messages are pushed and its writes travel in batches.

Decides when to connect, to send, to give up on a silent connection and to come back. Which item goes into
which frame is decided in `lineloop.client.batches`; how frames travel, in the transports. Every write that
was not acknowledged when a connection broke is sent again with the same key after reconnecting, so its
outcome is settled, not guessed (spec/protocol.md §8.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog

from lineloop.client.batches import Batches, ItemKind, LinkItem
from lineloop.client.transport import LinkConnection
from lineloop.kit import json as codec
from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.faults import FaultInjected, FaultMode, Faults
from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ConnectionLost, InvalidRequest, LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.messages import Message
from lineloop.protocol.versions import SPOKEN, Versions

PONG = '{"pong":{}}'
HELLO_TIMEOUT_SECONDS = 10.0
SILENT_HEARTBEATS = 3.0
# A connection that ends sooner counts as a failed attempt, so that a crashing server is not hammered.
STEADY_SECONDS = 5.0

_log = structlog.get_logger("lineloop.link")

C = TypeVar("C", bound=Callable[..., None])


@record
class LinkState:
    """Where the link stands. `epoch` changes when the server's database was restored or failed over."""

    connected: bool
    epoch: str | None = None
    error: LoopError | None = None


@record
class LinkParticipant:
    """Who has become active in a conversation, or has left it; pushed to `runtime/*` links only."""

    conversation_id: str
    actor: Actor


@record
class _Hello:
    """What the server said first."""

    actor: Actor | None
    epoch: str
    silent_after_seconds: float


class Link:
    """A reconnecting, batching link with the identity of its token.

    `open_connection` makes one connection (`Transport.open_link`); the first frame it receives is the
    server's hello. All time goes through `clock`. Callbacks run on the event loop, must not block, and one
    that raises is logged and hurts nobody else. A redelivery after a reconnect is normal: receivers go by
    message id.
    """

    def __init__(
        self,
        open_connection: Callable[[], Awaitable[LinkConnection]],
        clock: Clock,
        *,
        backoff: Backoff | None = None,
        faults: Faults | None = None,
        patience_seconds: float = 30.0,
        frames_in_flight: int = 4,
    ) -> None:
        self._open_connection = open_connection
        self._clock = clock
        self._backoff = backoff or Backoff(0.1, 2.0, 15.0, 0.3)
        self._faults = faults or Faults.none()
        self._patience = patience_seconds
        self._batches = Batches(frames_in_flight=frames_in_flight)
        self._wake = asyncio.Event()
        self._tasks = Tasks("link")
        self._state = LinkState(connected=False)
        self._actor: Actor | None = None
        self._connection: LinkConnection | None = None
        self._first: asyncio.Future[None] | None = None
        self._refused: LoopError | None = None
        self._closed = False
        self._last_frame_at = 0.0
        self._retry_after: float | None = None
        self._pong_due = False
        self._on_deliver: list[Callable[[list[Message]], None]] = []
        self._on_participants: list[Callable[[list[LinkParticipant]], None]] = []
        self._on_departed: list[Callable[[list[LinkParticipant]], None]] = []
        self._on_state: list[Callable[[LinkState], None]] = []

    # -- what a participant sees -------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._state.connected

    @property
    def state(self) -> LinkState:
        return self._state

    @property
    def actor(self) -> Actor | None:
        """Who the server says we are; None before the first hello."""
        return self._actor

    def on_deliver(self, callback: Callable[[list[Message]], None]) -> Callable[[], None]:
        """Call with each push of deliverable messages, in offset order. Returns the undo."""
        return _subscribe(self._on_deliver, callback)

    def on_participants(self, callback: Callable[[list[LinkParticipant]], None]) -> Callable[[], None]:
        """Call with operators that became active, and with all of them after each hello. Returns the undo."""
        return _subscribe(self._on_participants, callback)

    def on_departed(self, callback: Callable[[list[LinkParticipant]], None]) -> Callable[[], None]:
        """Call with those who left a conversation or were taken out of it. Returns the undo."""
        return _subscribe(self._on_departed, callback)

    def on_state(self, callback: Callable[[LinkState], None]) -> Callable[[], None]:
        """Call whenever the link connects or breaks. Returns the undo."""
        return _subscribe(self._on_state, callback)

    async def start(self, *, wait: bool = True) -> None:
        """Begin connecting, and with `wait` return after the first hello [write].

        Raises the LoopError of a refusal (unauthorized, protocol_version_unsupported, …). A server that
        cannot be reached is tried again for ever: bound the wait from outside, or pass `wait=False`.
        """
        if self._closed:
            raise ConnectionLost("the link is closed")
        if self._first is None:
            self._first = asyncio.get_running_loop().create_future()
            self._tasks.spawn(self._run(), name="run")
        if wait:
            await asyncio.shield(self._first)

    def submit(self, kind: ItemKind, body: dict[str, Any] | str) -> asyncio.Future[dict[str, Any]]:
        """Queue one write now; the future resolves to its result after the server's commit [write].

        `body` is the wire item, or its JSON text: speak `{"conversation_id", "key", …}`, commit
        `{"conversation_id", "position"}`, patches `{"message_id", "patches"}`, end `{"message_id", "seq",
        "status"?}`. Items submitted without awaiting keep their order within a kind only; a commit that must
        follow an end waits for it. Cancelling the future does not take the write back. The future raises the
        typed LoopError of the answer, or ConnectionLost when the link stayed broken (the outcome is then
        unknown; repeat with the same key). Raises Overloaded when too much is queued, ConnectionLost when
        closed, or the standing refusal.
        """
        if self._closed:
            raise ConnectionLost("the link is closed")
        if self._refused is not None:
            raise self._refused
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            text = body if isinstance(body, str) else codec.dumps(body)
        except ValueError as error:
            answer.set_exception(InvalidRequest(f"this is not JSON: {error}"))
            return answer
        self._batches.add(LinkItem(kind, text, answer, self._clock.monotonic()))
        self._wake.set()
        return answer

    async def speak(self, conversation_id: str, body: dict[str, Any]) -> Message:
        """Create or return a message by key; `body` as in POST …/messages [write]. Raises as `submit`."""
        result = await self.submit(ItemKind.SPEAK, {"conversation_id": conversation_id, **body})
        return Message.from_wire(result["message"])

    async def commit(self, conversation_id: str, position: int) -> None:
        """Commit the input of the link's actor up to `position`, an offset [write]. Raises as `submit`."""
        await self.submit(ItemKind.COMMIT, {"conversation_id": conversation_id, "position": position})

    async def close(self) -> None:
        """Stop for good. Writes that were not acknowledged raise ConnectionLost; the server may have them."""
        if self._closed:
            return
        self._closed = True
        if self._connection is not None:
            await self._connection.close()
        await self._tasks.close()
        gone = ConnectionLost("the link was closed before the answer arrived")
        self._batches.fail_all(gone)
        if self._first is not None and not self._first.done():
            self._first.set_exception(gone)
            self._first.exception()  # nobody has to wait for it
        self._become(LinkState(connected=False, epoch=self._state.epoch))

    # -- connecting --------------------------------------------------------------------------------------

    async def _run(self) -> None:
        attempt = 0
        while not self._closed:
            try:
                connection, hello = await self._connect()
            except LoopError as error:
                self._failed_to_connect(error)
            else:
                began = self._clock.monotonic()
                await self._serve(connection, hello)
                if self._clock.monotonic() - began >= STEADY_SECONDS:
                    attempt = 0
            self._batches.connection_broken()
            self._expire()
            await self._clock.sleep(self._pause(attempt))
            attempt += 1

    def _pause(self, attempt: int) -> float:
        asked, self._retry_after = self._retry_after, None
        if asked is not None:
            return asked
        # A refusal heals slowly if at all (a token was revoked); asking often helps nobody.
        return self._backoff.delay(attempt if self._refused is None else 1_000)

    def _failed_to_connect(self, error: LoopError) -> None:
        if not error.retryable:
            self._refused = error
            self._batches.fail_all(error)
            if self._first is not None and not self._first.done():
                self._first.set_exception(error)
                self._first.exception()
        _log.info("link_not_connected", code=error.code, reason=error.message)
        self._become(LinkState(connected=False, epoch=self._state.epoch, error=error))

    def _expire(self) -> None:
        oldest = self._clock.monotonic() - self._patience
        self._batches.drop_where(
            lambda item: item.queued_at < oldest,
            ConnectionLost(f"no link for {self._patience:g} s; whether the server has this is unknown"),
        )

    async def _connect(self) -> tuple[LinkConnection, _Hello]:
        try:
            connection = await with_timeout(self._clock, HELLO_TIMEOUT_SECONDS, self._open_connection())
        except TimeoutError as error:
            raise ConnectionLost("the server did not take the connection in time") from error
        try:
            frame = await with_timeout(self._clock, HELLO_TIMEOUT_SECONDS, connection.receive())
            if "error" in frame:
                raise LoopError.from_problem(frame["error"])
            return connection, _hello(frame)
        except TimeoutError as error:
            await connection.close()
            raise ConnectionLost("the server said no hello in time") from error
        except BaseException:
            await connection.close()
            raise

    async def _serve(self, connection: LinkConnection, hello: _Hello) -> None:
        """Use one connection until it ends."""
        self._connection = connection
        self._refused = None
        self._actor = hello.actor
        self._last_frame_at = self._clock.monotonic()
        self._pong_due = False
        self._wake.set()
        self._become(LinkState(connected=True, epoch=hello.epoch))
        if self._first is not None and not self._first.done():
            self._first.set_result(None)
        error: LoopError | None = None
        async with Tasks("link.connection") as tasks:
            tasks.spawn(self._write(connection), name="write")
            tasks.spawn(self._watch(connection, hello.silent_after_seconds), name="watch")
            try:
                while True:
                    self._take(await connection.receive())
            except LoopError as broken:
                error = broken
            except Exception as broken:
                # A frame that breaks the protocol: start afresh instead of guessing what was meant.
                _log.exception("link_frame_not_understood")
                error = ConnectionLost(f"the server sent a frame that is not understood: {broken!r}")
            finally:
                self._connection = None
                await connection.close()
        if not self._closed:
            _log.info("link_broken", reason=error.message if error else "")
            self._become(LinkState(connected=False, epoch=self._state.epoch, error=error))

    async def _write(self, connection: LinkConnection) -> None:
        """Send what waits, one frame after the other, woken by `submit` and by each answer."""
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._pong_due:
                    self._pong_due = False
                    await connection.send(PONG)
                # A draining server finishes what it has; new frames wait for the next connection.
                while self._retry_after is None and (frame := self._batches.next_frame()) is not None:
                    await self._faults.areach(FaultSite.CLIENT_LINK_SEND_BEFORE)
                    await connection.send(frame)
                    mode = await self._faults.areach(FaultSite.CLIENT_LINK_SEND_AFTER)
                    if mode is FaultMode.DUPLICATE:
                        await connection.send(frame)
                    elif mode is FaultMode.LOST_ACK:
                        raise ConnectionLost("the acknowledgement was lost on purpose")
                if self._retry_after is not None and not self._batches.flying:
                    break
        except (ConnectionLost, FaultInjected) as error:
            _log.info("link_send_failed", reason=str(error))
        await connection.close()

    async def _watch(self, connection: LinkConnection, silent_after: float) -> None:
        """Close a connection over which nothing comes any more; TCP alone may not notice for hours."""
        while True:
            quiet = self._clock.monotonic() - self._last_frame_at
            if quiet >= silent_after:
                _log.info("link_silent", seconds=round(quiet, 1))
                await connection.close()
                return
            await self._clock.sleep(silent_after - quiet)

    # -- frames from the server --------------------------------------------------------------------------

    def _take(self, frame: dict[str, Any]) -> None:
        self._last_frame_at = self._clock.monotonic()
        if (results := frame.get("results")) is not None:
            # An answer to a frame of an earlier connection, or a duplicate: its items are sent again anyway.
            self._batches.acknowledge(frame.get("id"), results)
            if self._batches.queued or self._retry_after is not None:
                self._wake.set()
        elif (messages := frame.get("deliver")) is not None:
            self._deliver(messages)
        elif (participants := frame.get("participants")) is not None:
            self._tell(self._on_participants, _participants(participants))
        elif (departed := frame.get("departed")) is not None:
            self._tell(self._on_departed, _participants(departed))
        elif (drain := frame.get("drain")) is not None:
            self._retry_after = float(drain.get("retry_ms", 0)) / 1000
            self._wake.set()
        elif "ping" in frame:
            self._pong_due = True
            self._wake.set()
        elif (problem := frame.get("error")) is not None:
            error = LoopError.from_problem(problem)
            if not self._batches.refuse(frame.get("id"), error):
                raise error

    def _deliver(self, wires: list[dict[str, Any]]) -> None:
        messages: list[Message] = []
        for wire in wires:
            try:
                messages.append(Message.from_wire(wire))
            except InvalidRequest as error:
                # A newer server's kind of message: the others must not wait behind it for ever.
                _log.error("message_not_understood", reason=error.message)
        self._tell(self._on_deliver, messages)

    def _become(self, state: LinkState) -> None:
        self._state = state
        self._tell(self._on_state, state)

    def _tell(self, callbacks: list[Callable[[Any], None]], value: Any) -> None:
        for callback in tuple(callbacks):
            try:
                callback(value)
            except Exception:
                _log.exception(
                    "link_callback_failed", callback=getattr(callback, "__qualname__", repr(callback))
                )


def _subscribe(callbacks: list[C], callback: C) -> Callable[[], None]:
    callbacks.append(callback)

    def undo() -> None:
        if callback in callbacks:
            callbacks.remove(callback)

    return undo


def _hello(frame: dict[str, Any]) -> _Hello:
    """Raises the refusal's LoopError, `protocol_version_unsupported`, or ConnectionLost for anything else."""
    if "error" in frame:
        raise LoopError.from_problem(frame["error"])
    hello = frame.get("hello")
    if not isinstance(hello, dict):
        raise ConnectionLost("the server's first frame was no hello")
    protocol = hello.get("protocol")
    if not isinstance(protocol, int):
        raise ConnectionLost("the server's hello names no protocol version")
    SPOKEN.agree(Versions(protocol, protocol))
    try:
        actor = Actor.from_wire(hello["actor"]) if hello.get("actor") else None
        heartbeat_seconds = float(hello.get("heartbeat_ms", 15_000)) / 1000
    except (InvalidRequest, ValueError, TypeError) as error:
        raise ConnectionLost(f"the server's hello is not understood: {error}") from error
    return _Hello(actor, str(hello.get("epoch", "")), SILENT_HEARTBEATS * heartbeat_seconds)


def _participants(items: list[dict[str, Any]]) -> list[LinkParticipant]:
    return [LinkParticipant(one["conversation_id"], Actor(one["kind"], one["key"])) for one in items]
