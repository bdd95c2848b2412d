"""Schemas that a caller names for an output: judged, never followed out of the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from lineloop.harness.tools import schema_problems


@pytest.mark.parametrize("place", ["file", "http"])
def test_a_schema_that_points_outside_itself_is_refused_unread(tmp_path: Path, place: str) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"token": "do-not-tell"}')
    reference = {"file": f"file://{secret}#/token", "http": "http://127.0.0.1:9/x.json#/token"}[place]
    (problem,) = schema_problems({"$ref": reference}, {"a": 1})
    assert "outside itself" in problem["message"]
    assert "do-not-tell" not in problem["message"]
