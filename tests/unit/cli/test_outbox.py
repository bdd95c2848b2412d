"""What was typed without a connection: kept, sent in order under one key, and told when it was not sent."""

from __future__ import annotations

from typing import Any

from lineloop.cli.chat.outbox import Outbox, Outgoing
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.cli.chat.waiting import Waiting
from lineloop.cli.chat.welcome import farewell
from lineloop.cli.chat.wire import ChatWire
from lineloop.client.transport import Response
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import text_content
from lineloop.protocol.errors import ConnectionLost, Forbidden, LoopError
from lineloop.protocol.messages import Message
from lineloop.testing.clock import FakeClock

ECHO = Actor("operator", "echo")


class Cable:
    """A server that can be cut off; `got` are the (path end, body) it has stored."""

    def __init__(self) -> None:
        self.error: LoopError | None = None
        self.got: list[dict[str, Any]] = []

    async def request(self, method: str, path: str, *, json: Any = None, **_: Any) -> Response:
        if self.error:
            raise self.error
        self.got.append(json)
        return Response(201, {"answer": stored(json).to_wire(), **stored(json).to_wire()})


def stored(body: dict[str, Any]) -> Message:
    at = "2026-01-01T00:00:00.000Z"
    return Message.from_wire(
        {
            "id": f"id-{body.get('key')}",
            "conversation_id": "root",
            "actor": {"kind": "user", "key": "local"},
            "target": ECHO.to_wire(),
            "key": body.get("key", "answer"),
            "purpose": "input",
            "status": "completed",
            "revision": 0,
            "ordinal": 1,
            "content": text_content(body.get("text", "")),
            "created_at": at,
            "updated_at": at,
        }
    )


class Desk:
    """An outbox with what it told."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = Cable()
        self.sent: list[str] = []
        self.refused: list[Outgoing] = []
        wire = ChatWire(self.server, "root", ECHO)  # pyright: ignore[reportArgumentType]
        self.outbox = Outbox(
            wire,
            self.clock,
            sent=lambda message: self.sent.append(message.text),
            refused=lambda thing, _: self.refused.append(thing),
            changed=lambda: None,
        )


async def test_lines_typed_without_a_connection_are_sent_in_order_when_it_is_back() -> None:
    desk = Desk()
    desk.server.error = ConnectionLost("cut")
    async with Tasks("test") as tasks:
        tasks.spawn(desk.outbox.run(), name="send")
        desk.outbox.put(Outgoing("one", "k1"))
        desk.outbox.put(Outgoing("yes", question_id="q1"))
        await desk.clock.advance(3600)
        assert desk.outbox.unsent() == ["one", "yes"]
        assert desk.outbox.delayed
        desk.server.error = None
        await desk.clock.advance(5)
        await desk.outbox.wait_empty()
    assert [body.get("text") or body.get("value") for body in desk.server.got] == ["one", "yes"]
    assert desk.sent == ["one"]
    assert desk.outbox.unsent() == []


async def test_what_is_refused_is_told_and_holds_up_nothing() -> None:
    desk = Desk()
    desk.server.error = Forbidden("no")
    async with Tasks("test") as tasks:
        tasks.spawn(desk.outbox.run(), name="send")
        desk.outbox.put(Outgoing("one", "k1"))
        await desk.clock.settle()
    assert [thing.text for thing in desk.refused] == ["one"]
    assert desk.outbox.unsent() == []


def test_on_leaving_what_was_not_sent_is_named() -> None:
    lines = farewell(Transcript("root"), 0, unsent=["milk, please"], ends_system=False)
    assert lines == [Line(LineKind.TROUBLE, "not sent: milk, please")]


def test_waiting_for_somebody_who_is_not_online_is_said_at_once() -> None:
    waiting, transcript = Waiting(ECHO), Transcript("root")
    transcript.speakers.learn([])
    waiting.sent(stored({"key": "k", "text": "hi"}), 0)
    line = waiting.line(transcript, 0)
    assert line is not None
    assert "operator/echo is not online" in line.text


def test_silence_is_spoken_of_after_some_seconds_and_ends_with_the_answer() -> None:
    waiting, transcript = Waiting(ECHO), Transcript("root")
    mine = stored({"key": "k", "text": "hi"})
    transcript.take_message(mine)
    waiting.sent(mine, 0)
    assert waiting.line(transcript, 1_000) is None
    line = waiting.line(transcript, 7_000)
    assert line is not None
    assert "no answer from echo yet, after 0:07" in line.text
    answer = {**mine.to_wire(), "id": "a", "key": "a", "actor": ECHO.to_wire(), "ordinal": 2}
    transcript.take_message(Message.from_wire({**answer, "purpose": "speech", "reply_to_id": mine.id}))
    assert waiting.line(transcript, 8_000) is None
    assert not waiting.open(transcript)
