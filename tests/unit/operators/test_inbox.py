"""The inbox: what an author sees of a poll, and what only the position covers."""

from __future__ import annotations

from typing import Any

from lineloop.operators.inbox import Inbox, late_result, wakes
from lineloop.protocol.content import envelope_content
from lineloop.protocol.messages import Message
from lineloop.testing.scripted import wire_message

DEVICE = {"kind": "runtime", "key": "desk"}


def message(purpose: str = "input", **changes: Any) -> Message:
    return Message.from_wire(wire_message(purpose=purpose, **changes))


def device_message(kind: str, payload: dict[str, Any], reply_to: str | None = "invoke-1") -> Message:
    envelope = {"type": kind, "payload": payload, "correlation": {"call_id": "run-1/2.0", "sequence": 4}}
    return message("envelope", content=envelope_content(envelope), reply_to_id=reply_to, actor=DEVICE)


def test_people_and_operators_are_listed_and_programs_are_only_covered() -> None:
    polled = [message(purpose, id=purpose) for purpose in ("input", "inventory", "answer", "run", "speech")]
    inbox = Inbox(polled, position=9, committed=3)
    assert [one.id for one in inbox] == ["input", "answer", "run", "speech"]
    assert len(inbox) == 4
    assert inbox[0].id == "input"
    assert [one.id for one in inbox[1:3]] == ["answer", "run"]
    assert inbox.position == 9


def test_a_late_result_is_typed_and_tells_which_call_it_answers() -> None:
    late = late_result(device_message("lineup.tool.result", {"result": {"finished": True}}))
    assert late is not None
    assert (late.ok, late.call_id, late.reply_to_id, late.result) == (
        True,
        "run-1/2.0",
        "invoke-1",
        {"finished": True},
    )


def test_a_late_error_has_a_code_and_a_sentence() -> None:
    payload = {"code": "cancelled_by_user", "message": "closed", "rejected": True}
    late = late_result(device_message("lineup.tool.error", payload))
    assert late is not None
    assert (late.ok, late.code, late.text, late.result) == (False, "cancelled_by_user", "closed", None)


def test_receipts_and_answers_to_nothing_are_no_results_and_wake_nobody() -> None:
    receipt = device_message("lineup.tool.progress", {"stage": "started"})
    stray = device_message("lineup.tool.result", {"result": {}}, reply_to=None)
    assert late_result(receipt) is None
    assert late_result(stray) is None
    assert not wakes(receipt)
    assert not wakes(message("inventory"))
    assert wakes(message("input"))
    assert wakes(device_message("lineup.tool.result", {"result": {}}))


def test_an_inbox_gives_the_late_results_beside_the_messages() -> None:
    inbox = Inbox([message(), device_message("lineup.tool.result", {"result": {}})], position=2)
    assert len(inbox) == 1
    assert len(inbox.results) == 1
