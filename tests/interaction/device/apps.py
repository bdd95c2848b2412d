"""Apps that tests bring along: the probe as it is, and changed copies of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROBE = Path(__file__).parents[2] / "fixtures" / "apps"


def changed_probe(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A folder with one app: the probe with its manifest changed."""
    target = folder / "probe"
    shutil.copytree(PROBE / "probe", target)
    manifest = json.loads((target / "manifest.json").read_text())
    change(manifest)
    (target / "manifest.json").write_text(json.dumps(manifest))
    return folder


def tool(manifest: dict[str, Any], method: str) -> dict[str, Any]:
    """One tool of a manifest, to be changed."""
    return next(tool for tool in manifest["tools"] if tool["method"] == method)


def with_tool(method: str, **changes: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one tool."""

    def change(manifest: dict[str, Any]) -> None:
        tool(manifest, method).update(changes)

    return change
