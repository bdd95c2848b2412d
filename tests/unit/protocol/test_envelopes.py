"""The protocol step of the envelope chain, held to the golden cases (spec/protocol.md §7)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from lineloop.kit import json
from lineloop.protocol.actors import Actor
from lineloop.protocol.envelopes import (
    FROM_AGENT,
    EnvelopeType,
    FromAgent,
    FromDevice,
    Stage,
    check_carrier,
    check_envelope,
    inventory_envelope,
    inventory_request,
    tool_cancel,
    tool_error,
    tool_invoke,
    tool_receipt,
    tool_result,
)
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.tools import Inventory, ToolKey

GOLDEN = Path(__file__).resolve().parents[3] / "spec" / "golden"
DOCUMENT: Any = json.loads((GOLDEN / "envelopes/check.json").read_text("utf-8"))
CASES: list[Any] = DOCUMENT["cases"]
AGENT = Actor("operator", "assistant")
TO_DEVICE = FromAgent("env-1", "2026-01-02T03:04:05.678Z", AGENT, "con-1")
TO_AGENT = FromDevice("env-2", "2026-01-02T03:04:05.678Z", "dev", AGENT, "con-1", "pomodoro", "env-1")
START = ToolKey("pomodoro", "pomodoro.start", "1")


def name_of(case: Any) -> str:
    return case["name"]


def built(case: Any) -> Any:
    envelope = copy.deepcopy(DOCUMENT["base"])
    for pointer, value in case.get("set", {}).items():
        *path, last = pointer.split("/")[1:]
        place = envelope
        for part in path:
            place = place[part]
        place[last] = value
    for pointer in case.get("remove", []):
        *path, last = pointer.split("/")[1:]
        place = envelope
        for part in path:
            place = place[part]
        del place[last]
    if "make" in case:
        envelope["payload"]["params"]["x"] = made(case["make"])
    return envelope


def made(recipe: dict[str, int]) -> Any:
    if "bytes" in recipe:
        return "x" * recipe["bytes"]
    value: Any = []
    for _ in range(recipe["depth"] - 1):
        value = [value]
    return value


@pytest.mark.requirement("D1", "D2", "D15")
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_golden_envelope_is_taken_or_refused_with_its_code(case: Any) -> None:
    envelope, from_agent = built(case), case.get("from_agent", True)
    if "code" not in case:
        assert check_envelope(envelope, from_agent=from_agent).id == envelope["id"]
        return
    with pytest.raises(LoopError) as refusal:
        check_envelope(envelope, from_agent=from_agent)
    assert refusal.value.code == case["code"]
    if "pointers" in case:
        assert {place["pointer"] for place in refusal.value.errors} == set(case["pointers"])


@pytest.mark.requirement("D2")
@pytest.mark.parametrize("raw", [None, 1, "text", [], [{}], True])
def test_what_is_no_object_is_no_envelope(raw: Any) -> None:
    with pytest.raises(LoopError) as refusal:
        check_envelope(raw, from_agent=True)
    assert refusal.value.code is ErrorCode.ENVELOPE_INVALID


@pytest.mark.requirement("D2")
def test_each_refusal_of_the_protocol_step_has_its_own_code() -> None:
    assert {case["code"] for case in CASES if "code" in case} == {
        "envelope_version_unsupported",
        "scope_missing",
        "envelope_type_unknown",
        "envelope_too_deep",
        "envelope_too_large",
        "envelope_invalid",
        "scope_forbidden",
        "scope_mismatch",
    }


@pytest.mark.requirement("D15")
def test_an_envelope_from_another_sender_or_conversation_than_its_message_is_refused() -> None:
    envelope = check_envelope(built({}), from_agent=True)
    check_carrier(envelope, speaker=AGENT, root_conversation_id="con-1")
    for speaker, conversation in ((Actor("operator", "other"), "con-1"), (AGENT, "con-2")):
        with pytest.raises(LoopError) as refusal:
            check_carrier(envelope, speaker=speaker, root_conversation_id=conversation)
        assert refusal.value.code is ErrorCode.SCOPE_MISMATCH


@pytest.mark.requirement("P7")
def test_what_an_agent_builds_passes_the_check() -> None:
    invoke = tool_invoke(TO_DEVICE, START, {"minutes": 1}, call_id="r/1.0", inventory_revision="inv_1")
    checked = check_envelope(invoke, from_agent=True).invocation()
    assert checked == (START, {"minutes": 1}, "r/1.0", "inv_1")
    for envelope in (
        tool_cancel(TO_DEVICE, app_scope="pomodoro", call_id="r/1.0", reason="stop"),
        inventory_request(TO_DEVICE),
        inventory_request(TO_DEVICE, known_revision="inv_1"),
    ):
        check_envelope(envelope, from_agent=True)


@pytest.mark.requirement("P7")
def test_what_a_device_builds_passes_the_check_and_names_no_instance() -> None:
    inventory = Inventory.of([])
    refusal = LoopError("stale", code="inventory_stale", detail={"inventory_revision": "inv_2"}, pointer="/x")
    built_by_device = [
        *(tool_receipt(TO_AGENT, stage, call_id="r/1.0", sequence=1) for stage in Stage),
        tool_result(TO_AGENT, {"outcome": "completed"}, call_id="r/1.0", sequence=3),
        tool_error(TO_AGENT, refusal, call_id="r/1.0", sequence=0, rejected=True),
        inventory_envelope(TO_AGENT, inventory.to_payload()),
    ]
    for envelope in built_by_device:
        checked = check_envelope(envelope, from_agent=False)
        assert checked.target.kind == "agent"
        assert "instance_id" not in json.dumps(envelope)
    error = built_by_device[-2]["payload"]
    assert error["code"] == "inventory_stale"
    assert error["rejected"] is True
    assert error["inventory_revision"] == "inv_2"


def test_the_first_receipt_is_accepted_and_later_ones_are_progress() -> None:
    kinds = {stage: tool_receipt(TO_AGENT, stage, call_id="c", sequence=1)["type"] for stage in Stage}
    assert kinds[Stage.ACCEPTED] == kinds[Stage.STARTING] == EnvelopeType.TOOL_ACCEPTED
    later = set(Stage) - {Stage.ACCEPTED, Stage.STARTING}
    assert {kinds[stage] for stage in later} == {EnvelopeType.TOOL_PROGRESS.value}


def test_only_an_invoke_is_an_invocation() -> None:
    envelope = check_envelope(inventory_request(TO_DEVICE), from_agent=True)
    with pytest.raises(LoopError) as refusal:
        envelope.invocation()
    assert refusal.value.code is ErrorCode.ENVELOPE_INVALID


def test_an_agent_sends_no_answers_and_no_lifecycle() -> None:
    assert not FROM_AGENT & {EnvelopeType.TOOL_RESULT, EnvelopeType.TOOL_ERROR, EnvelopeType.APP_OPEN}
