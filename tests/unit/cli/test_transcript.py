"""What a reader of the terminal sees, told from stream events alone."""

from __future__ import annotations

from typing import Any

from lineloop.cli.chat.calls import clock_text
from lineloop.cli.chat.transcript import Line, LineKind, Transcript
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import envelope_content, error_meta, text_content
from lineloop.protocol.messages import Message, MessageStatus, Purpose
from lineloop.protocol.questions import QuestionKind, QuestionState, QuestionTerms, question_content

ROOT = "root"
ASSISTANT = Actor("operator", "assistant")
DEVICE = Actor("runtime", "laptop")
PERSON = Actor("user", "local")
T0 = 1_767_225_600_000  # 2026-01-01T00:00:00Z


class Story:
    """Messages of one root conversation, numbered as the server would."""

    def __init__(self) -> None:
        self.transcript = Transcript(ROOT)
        self._ordinal = 0

    def take(
        self,
        actor: Actor,
        content: dict[str, Any],
        purpose: Purpose = Purpose.SPEECH,
        *,
        key: str | None = None,
        message_id: str | None = None,
        status: MessageStatus = MessageStatus.COMPLETED,
        revision: int = 0,
        conversation: str = ROOT,
    ) -> list[Line]:
        self._ordinal += 1
        message = Message(
            id=message_id or f"m{self._ordinal}",
            conversation_id=conversation,
            actor=actor,
            target=None,
            key=key or f"k{self._ordinal}",
            reply_to_id=None,
            purpose=purpose,
            status=status,
            revision=revision,
            ordinal=self._ordinal,
            offset=self._ordinal,
            content=content,
            created_at="2026-01-01T00:00:00.000Z",
            updated_at="2026-01-01T00:00:00.000Z",
        )
        return self.transcript.take_message(message)

    def envelope(self, actor: Actor, kind: str, payload: dict[str, Any], call_id: str = "c1") -> list[str]:
        content = envelope_content({"type": kind, "correlation": {"call_id": call_id}, "payload": payload})
        return [line.text for line in self.take(actor, content, Purpose.ENVELOPE)]

    def start_focus(self) -> list[str]:
        params = {"minutes": 1, "label": "tea"}
        payload = {"app_scope": "pomodoro", "method": "start", "contract_version": "1", "params": params}
        return self.envelope(ASSISTANT, "lineup.tool.invoke", payload)

    def live(self, later_ms: int = 0) -> list[str]:
        return [line.text for line in self.transcript.live(T0 + later_ms)]


def test_a_timer_is_said_to_run_only_after_started() -> None:
    story = Story()
    assert story.start_focus() == ["→ pomodoro.start · minutes 1, label tea"]
    assert story.envelope(DEVICE, "lineup.tool.accepted", {"stage": "starting"}) == [
        "· pomodoro.start is starting"
    ]
    assert story.live() == []
    started = {"stage": "started", "ends_at": "2026-01-01T00:01:00.000Z"}
    assert story.envelope(DEVICE, "lineup.tool.progress", started) == ["● pomodoro.start started, 1:00 to go"]
    assert story.live(13_000) == ["● tea · 0:47 left · say stop to end it"]
    ended = {"result": {"outcome": "interrupted", "elapsed_ms": 13_000}}
    assert story.envelope(DEVICE, "lineup.tool.result", ended) == ["■ pomodoro.start: interrupted after 0:13"]
    assert story.live(14_000) == []


def test_a_receipt_that_comes_twice_is_told_once_and_nothing_is_told_after_the_end() -> None:
    story = Story()
    story.start_focus()
    assert story.envelope(DEVICE, "lineup.tool.accepted", {"stage": "starting"})
    assert story.envelope(DEVICE, "lineup.tool.accepted", {"stage": "starting"}) == []
    assert story.envelope(DEVICE, "lineup.tool.accepted", {"stage": "accepted"}) == []
    assert story.envelope(DEVICE, "lineup.tool.error", {"code": "app_disabled", "message": ""}) == [
        "✗ pomodoro.start: app_disabled"
    ]
    assert story.envelope(DEVICE, "lineup.tool.result", {"result": {}}) == []


def test_a_message_sent_from_here_is_shown_once() -> None:
    story = Story()
    assert story.transcript.echo("mine", "hi") == Line(LineKind.YOU, "hi", "you")
    assert story.take(PERSON, text_content("hi"), Purpose.INPUT, key="mine") == []
    assert story.take(PERSON, text_content("from the phone"), Purpose.INPUT) == [
        Line(LineKind.YOU, "from the phone", "you")
    ]


def test_a_stream_is_live_until_it_ends_and_stays_once() -> None:
    story = Story()
    streaming = MessageStatus.STREAMING
    assert story.take(ASSISTANT, text_content("The"), message_id="a", status=streaming, revision=1) == []
    patch = {"op": "append", "seq": 2, "mask": "block.content", "block": {"id": "text", "content": " tea"}}
    assert story.transcript.take_patch("a", patch) == []
    assert story.live() == ["The tea"]
    assert story.transcript.take_patch("a", patch) == [], "a repeated patch changes nothing"
    assert story.live() == ["The tea"]
    told = story.take(ASSISTANT, text_content("The tea is ready."), message_id="a", revision=4)
    assert told == [Line(LineKind.OTHER, "The tea is ready.", "assistant")]
    assert story.take(ASSISTANT, text_content("The tea is ready."), message_id="a", revision=4) == []


def test_a_failed_message_says_why() -> None:
    content = {**text_content("half"), "meta": {"error": {"code": "run_failed", "message": "no luck"}}}
    lines = Story().take(ASSISTANT, content, status=MessageStatus.FAILED)
    assert [line.text for line in lines] == ["half", "assistant failed: no luck"]


def test_a_card_is_answered_by_number_label_or_value_and_closes_once() -> None:
    story = Story()
    terms = QuestionTerms(QuestionKind.ASK, "Which tea?", (("g", "Green"), ("b", "Black")))
    asked = question_content(terms, deadline_at="2026-01-01T01:00:00.000Z", state=QuestionState.PENDING)
    lines = story.take(ASSISTANT, asked, Purpose.QUESTION, message_id="q")
    assert lines == [Line(LineKind.CARD, "Which tea?\n  1  Green\n  2  Black", "assistant")]
    question = story.transcript.question()
    assert question is not None
    assert [question.value_of(word) for word in ("2", "green", "b", "3", "stop")] == [
        "b",
        "g",
        "b",
        None,
        None,
    ]
    closed = question_content(
        terms, deadline_at="2026-01-01T01:00:00.000Z", state=QuestionState.SUCCESS, value="g"
    )
    assert [line.text for line in story.take(ASSISTANT, closed, Purpose.QUESTION, message_id="q")] == [
        "answered: Green"
    ]
    assert story.transcript.question() is None


def test_free_text_answers_only_where_the_card_allows_it() -> None:
    story = Story()
    terms = QuestionTerms(QuestionKind.ASK, "Name?", (), allow_other=True)
    asked = question_content(terms, deadline_at="2026-01-01T01:00:00.000Z", state=QuestionState.PENDING)
    story.take(ASSISTANT, asked, Purpose.QUESTION)
    question = story.transcript.question()
    assert question is not None
    assert question.value_of(" Ada ") == "Ada"
    assert question.value_of("  ") is None


def test_the_words_of_a_run_are_shown_while_they_come_and_the_answer_stays() -> None:
    story = Story()
    running = MessageStatus.STREAMING
    story.take(
        ASSISTANT, text_content("1 2"), Purpose.RUN, status=running, conversation="process", message_id="r"
    )
    assert story.transcript.live(T0) == [Line(LineKind.DRAFT, "1 2", "assistant")]
    story.take(
        ASSISTANT, text_content("1 2 3."), Purpose.RUN, conversation="process", message_id="r", revision=3
    )
    assert story.live() == []
    assert story.take(ASSISTANT, text_content("1 2 3.")) == [Line(LineKind.OTHER, "1 2 3.", "assistant")]


def test_work_in_a_process_conversation_is_hinted_at_and_not_shown() -> None:
    story = Story()
    lines = story.take(
        ASSISTANT, text_content("thinking"), status=MessageStatus.STREAMING, conversation="process"
    )
    assert lines == []
    assert story.live() == ["assistant is working …"]


def test_durations_read_like_a_clock() -> None:
    assert [clock_text(ms) for ms in (0, 1, 999, 61_000, 3_661_000, -5)] == [
        "0:00",
        "0:01",
        "0:01",
        "1:01",
        "1:01:01",
        "0:00",
    ]


def test_while_free_text_is_asked_the_timer_says_how_to_stop_it_all_the_same() -> None:
    story = Story()
    story.start_focus()
    started = {"stage": "started", "ends_at": "2026-01-01T00:01:00.000Z"}
    story.envelope(DEVICE, "lineup.tool.progress", started)
    terms = QuestionTerms(QuestionKind.ASK, "Name?", (), allow_other=True)
    asked = question_content(terms, deadline_at="2026-01-01T01:00:00.000Z", state=QuestionState.PENDING)
    story.take(ASSISTANT, asked, Purpose.QUESTION)
    timer, hint = story.live()
    assert timer == "● tea · 1:00 left · /say stop ends it"
    assert "what you type answers" in hint
    assert "/say TEXT talks" in hint


def test_blocks_that_cannot_be_shown_are_named() -> None:
    content = text_content("Look:")
    content["blocks"].append({"id": "p", "type": "image", "url": "x"})
    (line,) = Story().take(ASSISTANT, content)
    assert line.text == "Look:\n\n[block of type image]"


def test_many_runs_of_one_operator_are_one_status_line() -> None:
    story = Story()
    for number in range(3):
        running = MessageStatus.STREAMING
        story.take(
            ASSISTANT,
            text_content(""),
            Purpose.RUN,
            status=running,
            conversation="process",
            key=f"run_{number}",
        )
    assert story.live() == ["assistant is working …"]


def test_a_failure_whose_words_are_its_reason_is_told_once() -> None:
    story = Story()
    reason = text_content("no luck", meta=error_meta("run_failed", "no luck"))
    assert story.take(ASSISTANT, reason, status=MessageStatus.FAILED) == [
        Line(LineKind.TROUBLE, "assistant failed: no luck")
    ]
    half = text_content("half of it", meta=error_meta("run_failed", "no luck"))
    assert [line.text for line in story.take(ASSISTANT, half, status=MessageStatus.FAILED)] == [
        "half of it",
        "assistant failed: no luck",
    ]
