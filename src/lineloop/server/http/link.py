"""The link: one connection per participant, over which deliverable messages are pushed and writes come in
batches.

Decides what is pushed when, in which order, and how much may wait. Leaves the socket to `link_socket`, the
meaning of each write to `commit`. A session trusts hints only where they continue what it has pushed;
anything else is read from the database, and a sweep looks for what no hint told (spec/protocol.md §8.3).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from lineloop.kit import json
from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.ids import Ids
from lineloop.protocol.actors import RUNTIME, Actor
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.link_requests import LinkFrame, frame_id_of, parse_link_frame
from lineloop.protocol.versions import SPOKEN
from lineloop.server.commit import Commits
from lineloop.server.decide.access import Grant, Verb
from lineloop.server.http.link_frames import (
    Answer,
    DeliverFrame,
    Frame,
    PlainFrame,
    ResultsFrame,
    failed,
    submit_items,
)
from lineloop.server.http.rates import RateLimits
from lineloop.server.records import StoredMessage
from lineloop.server.store import consumers, messages
from lineloop.server.wakeup.bus import (
    Bus,
    Hint,
    MessageChanged,
    ParticipantJoined,
    ParticipantsChanged,
)

MAX_QUEUED_MESSAGES = 512
MAX_QUEUED_BYTES = 4 * 1024 * 1024
MAX_FRAMES_IN_FLIGHT = 64
MAX_WAITING_FRAMES = 64
READ_PAGE = 100
FRAME_MESSAGES = 128
SILENT_HEARTBEATS = 3.5


class LinkSession:
    """One end of a link for one actor. `receive` gives frames to send out, `send` takes what came in.

    The first frame received is the server's hello. One reader and one writer at a time.
    """

    def __init__(
        self,
        links: Links,
        grant: Grant,
        actor: Actor,
        *,
        protocol: int,
        on_close: Callable[[LinkSession], None],
    ) -> None:
        self._links = links
        self._commits = links.commits
        self._grant = grant
        self.actor = actor
        self._on_close = on_close
        self._frames: deque[Frame] = deque([PlainFrame({"hello": links.hello(actor, protocol)})])
        self._messages: deque[StoredMessage] = deque()
        self._queued_bytes = 0
        self._pushed: dict[str, int] = {}
        self._sent: dict[str, int] = {}
        self._behind: dict[str, None] = {}
        # Of which the backlog is being read: what a hint tells meanwhile may be in it, or not.
        self._reading: str | None = None
        self._participants: list[dict[str, str]] = []
        self._in_flight: deque[tuple[str | int | None, list[Answer]]] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self._last_frame_at = links.clock.monotonic()
        self._last_heard_at = self._last_frame_at
        self._stop = links.bus.listen_actor(actor.kind, actor.key, self._hear)

    @property
    def token_id(self) -> str | None:
        return self._grant.token_id

    async def start(self) -> None:
        """Looks up what waits. Called once, after the session listens, so that nothing falls between."""
        actor, is_device = self.actor, self.actor.kind == RUNTIME

        def read(tx: Tx) -> tuple[list[tuple[str, int, int]], list[tuple[str, str, str]]]:
            return consumers.backlog(tx, actor), consumers.operators_beside(tx, actor) if is_device else []

        backlog, beside = await self._commits.read(read)
        for conversation_id, _, _ in backlog:
            self._behind[conversation_id] = None
        self._participants += [_participant(*one) for one in beside]
        self._wake.set()

    # -- what comes in -----------------------------------------------------------------------------------

    async def send(self, frame: dict[str, Any] | str | bytes) -> None:
        """Takes one frame: all its items are queued now and share a commit. Raises ConnectionLost when
        closed.

        A frame that cannot be read is answered with `{"error": problem}`.
        """
        rest = self.take(frame)
        if rest is not None:
            await rest

    def take(self, frame: dict[str, Any] | str | bytes) -> Coroutine[Any, Any, None] | None:
        """As `send`, but what is left to wait for before the next frame is given back."""
        if self._closed:
            raise ConnectionLost("the link is closed")
        self._last_heard_at = self._links.clock.monotonic()
        try:
            parsed = parse_link_frame(frame, item_bytes=self._links.body_bytes)
        except LoopError as error:
            return self._answer({"id": frame_id_of(frame), "error": error.to_problem()})
        pong = self._answer({"pong": {}}) if parsed.ping else None
        if parsed.id is None:
            return pong
        items = len(parsed.speak) + len(parsed.commit) + len(parsed.patches) + len(parsed.end)
        seconds = self._links.rates.wait_seconds(self._grant, items)
        return self._take_later(parsed, items, seconds, pong) if seconds or pong else self._queue(parsed)

    async def _take_later(
        self, parsed: LinkFrame, items: int, seconds: float, pong: Coroutine[Any, Any, None] | None
    ) -> None:
        """A link that is too quick is not refused but heard later."""
        if pong is not None:
            await pong
        while seconds:
            await self._links.clock.sleep(min(seconds, self._links.heartbeat_seconds))
            if self._closed:
                raise ConnectionLost("the link is closed")
            self._last_heard_at = self._links.clock.monotonic()
            seconds = self._links.rates.wait_seconds(self._grant, items)
        rest = self._queue(parsed)
        if rest is not None:
            await rest

    def _queue(self, parsed: LinkFrame) -> Coroutine[Any, Any, None] | None:
        answers = submit_items(self._commits, self._grant, self._links.ids, parsed, self._sent)
        self._in_flight.append((parsed.id, answers))
        self._wake_when_done(answers)
        return self._until_room() if len(self._in_flight) >= MAX_FRAMES_IN_FLIGHT else None

    def _answer(self, content: dict[str, Any]) -> Coroutine[Any, Any, None] | None:
        """Who asks without taking the answers is not heard any further."""
        self._frames.append(PlainFrame(content))
        self._wake.set()
        return self._until_room() if len(self._frames) >= MAX_WAITING_FRAMES else None

    def _until_room(self) -> Coroutine[Any, Any, None]:
        self._room.clear()

        async def wait() -> None:
            await self._room.wait()

        return wait()

    def _has_room_for_frames(self) -> bool:
        return len(self._in_flight) < MAX_FRAMES_IN_FLIGHT and len(self._frames) < MAX_WAITING_FRAMES

    def _wake_when_done(self, answers: list[Answer]) -> None:
        """Looks at the last that is not done, again when it is: often the others were done before.

        Not always: what is in different lanes of a database ends in any order.
        """
        for answer in reversed(answers):
            if answer.future is not None and not answer.future.done():
                answer.future.add_done_callback(lambda _: self._wake_when_done(answers))
                return
        self._wake.set()

    # -- what goes out -----------------------------------------------------------------------------------

    async def receive(self) -> dict[str, Any]:
        """The next frame as a value; its messages are shared, so never change them in place.

        Raises ConnectionLost when the session is closed.
        """
        return (await self.next_frame()).value()

    async def next_frame(self) -> Frame:
        """Waits for something to send. Raises ConnectionLost when the session has ended."""
        while True:
            if self._closed:
                raise ConnectionLost("the link is closed")
            self._wake.clear()
            frame = self._ready_frame()
            if frame is None and self._behind:
                await self._catch_up()
                continue
            if frame is None:
                await self._wake.wait()
                continue
            self._last_frame_at = self._links.clock.monotonic()
            return frame

    def beat(self, now: float) -> None:
        """Called now and then: a link without a frame for a heartbeat is pinged, a silent one ends.

        One clock for all sessions: a timer of its own for each wait would cost more than the wait is worth.
        """
        heartbeat = self._links.heartbeat_seconds
        if now - self._last_heard_at > SILENT_HEARTBEATS * heartbeat:
            self.end()
        elif now - self._last_frame_at >= heartbeat and not self._frames:
            self._frames.append(PlainFrame({"ping": {}}))
            self._wake.set()

    def _ready_frame(self) -> Frame | None:
        if self._frames:
            frame = self._frames.popleft()
            if self._has_room_for_frames():
                self._room.set()
            return frame
        if self._in_flight and all(answer.done for answer in self._in_flight[0][1]):
            frame_id, answers = self._in_flight.popleft()
            for answer in answers:
                if (refusal := answer.refusal) is not None:
                    self._links.refused(refusal, "link", self._grant)
            if self._has_room_for_frames():
                self._room.set()
            return ResultsFrame(frame_id, answers)
        if self._participants:
            participants, self._participants = self._participants, []
            return PlainFrame({"participants": participants})
        if self._messages:
            return self._deliver_frame()
        return None

    def _deliver_frame(self) -> Frame:
        batch: list[StoredMessage] = []
        size = 0
        while self._messages and len(batch) < FRAME_MESSAGES and size < self._links.frame_bytes // 2:
            message = self._messages.popleft()
            weight = len(message.content_json)
            self._queued_bytes -= weight
            size += weight
            assert message.offset is not None
            self._sent[message.conversation_id] = message.offset
            batch.append(message)
        return DeliverFrame(batch)

    # -- hints and the database --------------------------------------------------------------------------

    def _hear(self, hint: Hint) -> None:
        if isinstance(hint, MessageChanged):
            self._hear_message(hint)
        elif isinstance(hint, ParticipantJoined):
            self._participants.append(_participant(hint.conversation_id, hint.kind, hint.key))
        elif isinstance(hint, ParticipantsChanged):
            self._hear_departures(hint)
        else:
            return
        self._wake.set()

    def _hear_departures(self, hint: ParticipantsChanged) -> None:
        """Who left is told nothing more of the conversation; a device beside it, that it left."""
        if (self.actor.kind, self.actor.key) in hint.left:
            self.forget(set(hint.conversations))
            return
        if hint.left:
            gone = [_participant(hint.root_id, *one) for one in hint.left]
            self._frames.append(PlainFrame({"departed": gone}))

    def forget(self, places: set[str]) -> None:
        """Drops what waits to be delivered from those conversations."""
        self._messages = deque(one for one in self._messages if one.conversation_id not in places)
        self._queued_bytes = sum(len(one.content_json) for one in self._messages)
        if self._reading in places:
            self._reading = None
        for place in places:
            self._behind.pop(place, None)
            self._pushed.pop(place, None)
            self._sent.pop(place, None)

    @property
    def queued_places(self) -> set[str]:
        """The conversations of which something waits to be delivered."""
        return {one.conversation_id for one in self._messages}

    def _hear_message(self, hint: MessageChanged) -> None:
        previous = next(
            (
                one.previous
                for one in hint.recipients
                if (one.kind, one.key) == (self.actor.kind, self.actor.key)
            ),
            None,
        )
        if previous is None or hint.offset is None:
            return
        place = hint.conversation_id
        pushed = self._pushed.get(place, 0)
        if hint.offset <= pushed:
            return
        continues = pushed == previous and place not in self._behind and place != self._reading
        if continues and hint.message is not None and self._has_room():
            self._enqueue(hint.message)
        else:
            self._behind[place] = None

    def _has_room(self) -> bool:
        return len(self._messages) < MAX_QUEUED_MESSAGES and self._queued_bytes < MAX_QUEUED_BYTES

    def _enqueue(self, message: StoredMessage) -> None:
        assert message.offset is not None
        self._messages.append(message)
        self._queued_bytes += len(message.content_json)
        self._pushed[message.conversation_id] = message.offset

    async def _catch_up(self) -> None:
        """Reads one page of one conversation that is behind. Called when nothing else waits."""
        place = next(iter(self._behind))
        del self._behind[place]
        self._reading = place
        pushed = self._pushed.get(place, 0)
        actor = self.actor

        def read(tx: Tx) -> tuple[int, list[StoredMessage]] | None:
            consumer = consumers.get(tx, place, actor)
            if consumer is None:
                return None
            start = max(pushed, consumer.committed)
            if consumer.end_offset <= start:
                return start, []
            return start, messages.inbox(tx, place, actor, after=start, limit=READ_PAGE)

        try:
            found = await self._commits.read(read)
            forgotten = self._reading != place
        except BaseException:
            # Nobody waited for the answer, or there was none: the next one who asks reads it.
            if self._reading == place:
                self._behind[place] = None
            raise
        finally:
            self._reading = None
        if found is None or forgotten:
            return
        start, page = found
        # A hint heard meanwhile marked the place again; what was pushed before has not moved.
        self._pushed[place] = start
        for message in page:
            self._enqueue(message)
        if len(page) == READ_PAGE:
            self._behind[place] = None

    def look_again(self, backlog: list[tuple[str, int, int]]) -> None:
        """The sweep: (conversation, committed, end offset) of everything that waits for this actor."""
        for conversation_id, committed, end in backlog:
            if end > max(self._pushed.get(conversation_id, 0), committed):
                self._behind[conversation_id] = None
                self._wake.set()

    def drain(self, retry_ms: int) -> None:
        """Tells the other side to finish and come back later."""
        self._frames.append(PlainFrame({"drain": {"retry_ms": retry_ms}}))
        self._wake.set()

    async def close(self) -> None:
        """Ends the session; what waits is dropped and will be read again by the next one. Repeating is
        harmless.
        """
        self.end()

    def end(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._stop()
        self._room.set()
        self._wake.set()
        for _, answers in self._in_flight:
            for answer in answers:
                answer.abandon()
        self._on_close(self)


class Links:
    """All link sessions of a server."""

    def __init__(
        self,
        commits: Commits,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        *,
        heartbeat_seconds: float,
        frame_bytes: int,
        body_bytes: int,
        rates: RateLimits,
    ) -> None:
        self.commits = commits
        self.bus = bus
        self.clock = clock
        self.ids = ids
        self.heartbeat_seconds = heartbeat_seconds
        self.frame_bytes = frame_bytes
        self.body_bytes = body_bytes
        self.rates = rates
        self.refused: Callable[[LoopError, str, Grant | None], None] = _unheard
        self.epoch = ""
        self._sessions: set[LinkSession] = set()
        self._draining = False

    def __len__(self) -> int:
        return len(self._sessions)

    def hello(self, actor: Actor, protocol: int) -> dict[str, Any]:
        return {
            "protocol": protocol,
            "epoch": self.epoch,
            "actor": actor.to_wire(),
            "heartbeat_ms": int(self.heartbeat_seconds * 1000),
        }

    async def open(self, grant: Grant, *, protocol: int = SPOKEN.newest) -> LinkSession:
        """A session for the grant's own actor, in the version that was agreed on.

        Raises Forbidden, InvalidRequest, ConnectionLost.
        """
        grant.require(Verb.POLL)
        actor = grant.actor()
        if self._draining:
            raise ConnectionLost("the server is stopping")
        if grant.device_key is not None:
            await self.commits.activate_device(grant.owner_user, grant.device_key)
        session = LinkSession(self, grant, actor, protocol=protocol, on_close=self._sessions.discard)
        self._sessions.add(session)
        try:
            await session.start()
        except BaseException:
            session.end()
            raise
        return session

    async def sweep(self) -> None:
        """Pings who was not told anything for long, and looks for messages that no hint told of."""
        now = self.clock.monotonic()
        for session in list(self._sessions):
            session.beat(now)
        sessions = list(self._sessions)
        if not sessions:
            return
        actors = {session.actor for session in sessions}
        waiting = {(place, session.actor) for session in sessions for place in session.queued_places}

        def read(tx: Tx) -> tuple[dict[Actor, list[tuple[str, int, int]]], set[tuple[str, Actor]]]:
            gone = {one for one in waiting if consumers.get(tx, *one) is None}
            return {actor: consumers.backlog(tx, actor) for actor in actors}, gone

        backlogs, gone = await self.commits.read(read)
        for session in sessions:
            session.forget({place for place, actor in gone if actor == session.actor})
            session.look_again(backlogs[session.actor])

    def end_of_token(self, token_id: str) -> None:
        """A revoked token's links end."""
        for session in list(self._sessions):
            if session.token_id == token_id:
                session.end()

    def drain(self, retry_ms: int) -> None:
        self._draining = True
        for session in list(self._sessions):
            session.drain(retry_ms)

    def close(self) -> None:
        for session in list(self._sessions):
            session.end()


def _unheard(error: LoopError, action: str, grant: Grant | None) -> None:
    """Nobody keeps an account of what is refused."""


def _participant(conversation_id: str, kind: str, key: str) -> dict[str, str]:
    return {"conversation_id": conversation_id, "kind": kind, "key": key}


def error_frame(error: LoopError) -> str:
    """The only frame of a link that is refused."""
    return json.dumps(failed(error))
