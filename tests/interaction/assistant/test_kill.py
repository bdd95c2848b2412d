"""A whole process dies by kill -9 inside a Run; the next one ends it as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.blackbox.system import System, envelope_of, eventually

TARGET = {"kind": "operator", "key": "assistant"}
SITES = [
    f"harness.{part}.{side}_commit"
    for part in ("submit", "claim", "step", "tool_dispatch", "tool_result", "finish")
    for side in ("before", "after")
]


@pytest.mark.slow
@pytest.mark.parametrize("site", SITES)
def test_a_focus_is_started_and_told_once_although_the_process_dies(tmp_path: Path, site: str) -> None:
    system = System(tmp_path)
    try:
        system.start(f"{site}:kill")
        conversation = system.call("POST", "/conversations", {"name": "kill"})["id"]
        path = f"/conversations/{conversation}/messages"
        body = {"key": "say", "text": "start a 5 minute focus called tea", "target": TARGET}
        said = system.call("POST", path, body)
        assert system.died() == -9
        system.start()

        def messages() -> list[dict[str, Any]]:
            return system.call("GET", f"{path}?purpose=all&limit=200")["items"]

        def answers() -> list[dict[str, Any]]:
            return [m for m in messages() if m["actor"] == TARGET and m["purpose"] == "speech"]

        (answer,) = eventually(answers, f"an answer after {site}")
        assert (answer["key"], answer["status"]) == (f"{said['id']}/answer", "completed")
        assert 'Started: Pomodoro "tea", 5 min; it is running.' in answer["content"]["blocks"][0]["content"]
        envelopes = [(m, envelope_of(m)) for m in messages() if m["purpose"] == "envelope"]
        calls = {e["correlation"]["call_id"] for _, e in envelopes if e["type"] == "lineup.tool.invoke"}
        started = [m for m, e in envelopes if e["payload"].get("stage") == "started"]
        assert (len(calls), len(started)) == (1, 1)
        assert answer["ordinal"] > started[0]["ordinal"]
    finally:
        system.close()
