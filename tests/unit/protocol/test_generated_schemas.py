"""The published schemas are those of the models (spec/schema; spec/protocol.md §13)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lineloop.kit import json
from lineloop.protocol.schemas import Schema

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "spec/schema").glob("*.json"))


@pytest.mark.requirement("P15")
def test_generated_files_match_their_sources() -> None:
    checked = subprocess.run(
        [sys.executable, ROOT / "tools/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.requirement("P15")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_schema_is_a_schema_that_needs_nothing_else(path: Path) -> None:
    Schema(json.loads(path.read_text("utf-8")))


@pytest.mark.requirement("P15")
def test_the_published_envelope_schema_judges_as_the_check_does() -> None:
    schema = Schema(json.loads((ROOT / "spec/schema/runtime-envelope.json").read_text("utf-8")))
    golden: Any = json.loads((ROOT / "spec/golden/envelopes/check.json").read_text("utf-8"))
    assert schema.is_valid(golden["base"])
    assert not schema.is_valid({**golden["base"], "priority": 1})
    assert not schema.is_valid({**golden["base"], "v": 2})
