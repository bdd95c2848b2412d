"""Questions across kill -9 of the real program: deadlines, answers, waits and who is taken out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.blackbox.system import Json, Refused, System, eventually

PERSON = {"kind": "user", "key": "local"}
ECHO = {"kind": "operator", "key": "echo"}


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    system = System(tmp_path).start()
    yield system
    system.close()


def ask(system: System, root: str, token: str, key: str, timeout_ms: int) -> Json:
    body = {"kind": "confirm", "effect_key": key, "to": PERSON, "text": "?", "timeout_ms": timeout_ms}
    return system.call("POST", f"/conversations/{root}/questions", body, token)


@pytest.mark.requirement("L70")
def test_questions_outlive_kill_9_and_close_on_time(system: System) -> None:
    root = system.call("POST", "/conversations", {"key": "mine"})["id"]
    system.call("POST", f"/conversations/{root}/participants", ECHO)
    token = system.call("POST", "/tokens", {"actor": ECHO})["token"]
    kept = ask(system, root, token, "kept", 600_000)
    short = ask(system, root, token, "short", 1_500)
    system.kill()
    asked_at = time.monotonic()
    system.start()
    assert system.call("POST", "/conversations", {"key": "mine"})["id"] == root
    assert ask(system, root, token, "kept", 600_000) == kept
    late = system.call("GET", f"/questions/{short['id']}?wait_ms=20000", None, token)
    assert (late["state"], late["deadline_at"]) == ("timeout", short["deadline_at"])
    assert time.monotonic() - asked_at < 60
    answer = {"reply_to_id": kept["id"], "value": "accepted"}
    system.call("POST", f"/questions/{kept['id']}/answer", answer)
    system.kill()
    system.start()
    again = system.call("POST", f"/questions/{kept['id']}/answer", answer)
    inbox = system.call("POST", f"/conversations/{root}/poll", {"purpose": ["answer"]}, token)
    assert [one["id"] for one in inbox["messages"]] == [again["answer"]["id"]]
    with pytest.raises(Refused) as refused:
        system.call("POST", f"/questions/{kept['id']}/answer", {**answer, "value": "declined"})
    assert refused.value.problem["context"] == {"state": "success", "value": "accepted"}


@pytest.mark.requirement("P21", "P23")
def test_who_was_taken_out_stays_out_across_kill_9(system: System) -> None:
    root = system.call("POST", "/conversations", {})["id"]
    system.call("POST", f"/conversations/{root}/participants", ECHO)
    token = system.call("POST", "/tokens", {"actor": ECHO})["token"]
    said = {"key": "k", "text": "hello", "target": ECHO}
    system.call("POST", f"/conversations/{root}/messages", said)
    assert eventually(
        lambda: system.call("POST", f"/conversations/{root}/poll", {}, token)["messages"], "the message"
    )
    system.call("DELETE", f"/conversations/{root}/participants/operator/echo")
    system.kill()
    system.start()
    for call in (
        lambda: system.call("POST", f"/conversations/{root}/poll", {}, token),
        lambda: system.call("GET", f"/conversations/{root}/messages", None, token),
    ):
        with pytest.raises(Refused) as refused:
            call()
        assert refused.value.status == 404
    with pytest.raises(Refused) as refused:
        system.call("POST", f"/conversations/{root}/messages", {**said, "key": "again"})
    assert refused.value.problem["code"] == "not_participant"
