"""Which declarations fit the Runtime's built-in executions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lineloop.device.executions import check_executions
from lineloop.protocol.manifest import parse_manifest
from lineloop.protocol.schemas import schema_of

POMODORO = Path(__file__).parents[3] / "apps" / "pomodoro" / "manifest.json"


def errors_after(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> list[str]:
    """Pointers of what breaks when Pomodoro's start and interrupt are declared otherwise."""
    manifest = json.loads(POMODORO.read_text(encoding="utf-8"))
    change(*manifest["tools"])
    return [error["pointer"] for error in check_executions(parse_manifest(manifest).tools)]


def test_pomodoro_fits() -> None:
    assert errors_after(lambda start, interrupt: None) == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (lambda s, _: s["execution"].update(name="shell.run"), "/tools/0/execution/name"),
        (lambda s, _: s.update(call_model="command"), "/tools/0/call_model"),
        (
            lambda s, _: s.update(activation_requirement="activation_not_required"),
            "/tools/0/activation_requirement",
        ),
        (lambda s, _: s.update(idempotency="none"), "/tools/0/idempotency"),
        (lambda s, _: s["execution"].pop("duration_from"), "/tools/0/execution/duration_from"),
        (
            lambda s, _: s["execution"]["duration_from"].update(param="label"),
            "/tools/0/execution/duration_from/param",
        ),
        (
            lambda s, _: s["input_schema"]["properties"]["minutes"].pop("maximum"),
            "/tools/0/input_schema/properties/minutes",
        ),
        (
            lambda s, _: s["input_schema"]["properties"]["minutes"].update(maximum=10**6),
            "/tools/0/input_schema/properties/minutes",
        ),
        (lambda s, _: s["execution"].update(outcomes=["completed"]), "/tools/0/execution/outcomes"),
        (
            lambda s, _: s["execution"].update(outcomes=["completed", "interrupted", "abandoned"]),
            "/tools/0/execution/outcomes",
        ),
        (
            lambda s, _: s["output_schema"]["properties"]["outcome"].update(enum=["completed"]),
            "/tools/0/output_schema/properties/outcome",
        ),
        (
            lambda _, i: i["execution"].update(duration_from={"param": "reason", "unit": "ms"}),
            "/tools/1/execution/duration_from",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    change: Callable[[dict[str, Any], dict[str, Any]], None], pointer: str
) -> None:
    assert pointer in errors_after(change)


@pytest.mark.parametrize(
    ("params", "valid"),
    [
        ({"minutes": 1}, True),
        ({"minutes": 180, "label": "tea"}, True),
        ({"minutes": 0}, False),
        ({"minutes": 181}, False),
        ({"minutes": 1.5}, False),
        ({"minutes": "5"}, False),
        ({"label": "tea"}, False),
        ({"minutes": 5, "instance_id": "ins_1"}, False),
    ],
)
def test_pomodoro_takes_1_to_180_whole_minutes_and_a_label(params: dict[str, Any], valid: bool) -> None:
    manifest = parse_manifest(POMODORO.read_bytes())
    assert schema_of(manifest.tools[0].input_schema).is_valid(params) is valid


def test_people_s_words_are_found_in_pomodoro_s_descriptions() -> None:
    start, interrupt = parse_manifest(POMODORO.read_bytes()).tools
    for word in ("focus", "pomodoro", "meditation", "timer", "专注", "冥想", "计时", "番茄"):
        assert word in f"{start.title} {start.description}".lower()
    for word in ("stop", "interrupt", "end", "cancel", "停止", "结束", "中断"):
        assert word in f"{interrupt.title} {interrupt.description}".lower()
        assert word not in f"{start.title} {start.description}".lower()
