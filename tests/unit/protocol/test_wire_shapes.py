"""Actors, messages, conversations, questions and runs on the wire (spec/protocol.md §1, §2, §6)."""

from __future__ import annotations

from typing import Any

import pytest

from lineloop.protocol.actors import Actor
from lineloop.protocol.content import Purpose, envelope_content, text_content
from lineloop.protocol.errors import InvalidRequest, LoopError
from lineloop.protocol.machines import QuestionState
from lineloop.protocol.messages import ConversationInfo, Message, MessageStatus
from lineloop.protocol.questions import (
    ACCEPTED,
    DECLINED,
    Question,
    QuestionKind,
    QuestionTerms,
    check_answer,
    question_content,
    reply_content,
)
from lineloop.protocol.runs import Run, RunPhase, RunResult

AT = "2026-01-02T03:04:05.678Z"
MESSAGE = Message(
    id="m1",
    conversation_id="c1",
    actor=Actor("harness", "run-1"),
    target=Actor("runtime", "dev"),
    key="k",
    reply_to_id=None,
    purpose=Purpose.SPEECH,
    status=MessageStatus.COMPLETED,
    revision=0,
    ordinal=1,
    offset=1,
    content=text_content("hello"),
    created_at=AT,
    updated_at=AT,
    on_behalf_of=Actor("operator", "echo"),
    change=4,
    run_id="run_1",
)
ASK = QuestionTerms(QuestionKind.ASK, "Which?", (("a", "Apple"), ("b", "Pear")))


@pytest.mark.requirement("P1")
def test_an_actor_is_split_at_the_last_slash() -> None:
    assert Actor.parse("operator/planner/auditor/42") == Actor("operator/planner/auditor", "42")
    assert str(Actor("a/b", "c")) == "a/b/c"
    assert Actor("operator/echo/helper", "1").operator_key == "echo"
    assert Actor("user", "ann").operator_key is None


@pytest.mark.requirement("P1")
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("", "a"),
        ("a", ""),
        ("a", "b/c"),
        ("/a", "b"),
        ("a/", "b"),
        ("a//b", "c"),
        ("a\n", "b"),
        ("界" * 43, "b"),
    ],
)
def test_an_actor_that_breaks_a_rule_is_refused(kind: str, key: str) -> None:
    with pytest.raises(InvalidRequest):
        Actor(kind, key)


@pytest.mark.requirement("P2")
def test_a_message_survives_the_wire_and_unknown_fields_are_passed_over() -> None:
    assert Message.from_wire(MESSAGE.to_wire()) == MESSAGE
    assert Message.from_wire({**MESSAGE.to_wire(), "mood": "fine"}) == MESSAGE
    assert MESSAGE.text == "hello"
    assert MESSAGE.envelope is None
    assert MESSAGE.speaker == Actor("operator", "echo")


@pytest.mark.requirement("P2")
@pytest.mark.parametrize("field", ["id", "actor", "status", "purpose", "content", "revision"])
def test_what_is_no_message_is_refused(field: str) -> None:
    wire = MESSAGE.to_wire()
    del wire[field]
    with pytest.raises(InvalidRequest):
        Message.from_wire(wire)


def test_a_message_carries_an_envelope_only_when_its_purpose_says_so() -> None:
    wire = {**MESSAGE.to_wire(), "content": envelope_content({"v": 1})}
    assert Message.from_wire(wire).envelope is None
    assert Message.from_wire({**wire, "purpose": "envelope"}).envelope == {"v": 1}


@pytest.mark.requirement("P2")
def test_conversations_questions_and_runs_survive_the_wire() -> None:
    conversation = ConversationInfo("c1", "Tea", Actor("user", "ann"), None, AT)
    question = Question("m2", "m2", QuestionState.SUCCESS, "a", None, AT)
    run = Run("r1", "m3", "c1", RunPhase.SUCCEEDED, AT, None, RunResult("json", {"a": 1}))
    assert ConversationInfo.from_wire(conversation.to_wire()) == conversation
    assert Question.from_wire(question.to_wire()) == question
    assert Run.from_wire(run.to_wire()) == run
    assert run.ended
    assert "result" not in Run("r", "m", "c", RunPhase.PENDING, AT).to_wire()
    for shape in (ConversationInfo, Question, Run):
        with pytest.raises(InvalidRequest):
            shape.from_wire({})


@pytest.mark.requirement("P14")
def test_only_offered_values_answer_a_closed_question() -> None:
    check_answer(ASK, "a")
    for value in ("Apple", "c", ""):
        with pytest.raises(LoopError) as refusal:
            check_answer(ASK, value)
        assert refusal.value.code == "answer_invalid"


@pytest.mark.requirement("P14")
def test_free_text_answers_only_where_it_is_allowed_and_says_something() -> None:
    free = QuestionTerms(QuestionKind.ASK, "Name?", allow_other=True)
    check_answer(free, "Ann")
    with pytest.raises(LoopError):
        check_answer(free, "   ")


@pytest.mark.requirement("P14")
def test_labels_never_change_what_a_confirm_means() -> None:
    terms = QuestionTerms(QuestionKind.CONFIRM, "Pay?", accept_label="Do it", decline_label="Never")
    assert dict(terms.options()) == {ACCEPTED: "Do it", DECLINED: "Never"}
    check_answer(terms, DECLINED)
    with pytest.raises(LoopError):
        check_answer(terms, "Do it")


@pytest.mark.requirement("P14")
def test_the_cards_of_question_and_reply_say_the_same() -> None:
    card: Any = question_content(ASK, deadline_at=AT, state=QuestionState.PENDING)["blocks"][0]
    reply: Any = reply_content(ASK, question_id="m2", value="b")["blocks"][0]
    assert (
        card["choices"]
        == reply["choices"]
        == [{"value": "a", "label": "Apple"}, {"value": "b", "label": "Pear"}]
    )
    assert (reply["question"], reply["label"], reply["dismissed"]) == ("Which?", "Pear", False)
    dismissed: Any = reply_content(ASK, question_id="m2", value=None)["blocks"][0]
    assert (dismissed["dismissed"], dismissed["value"], dismissed["label"]) == (True, None, None)
