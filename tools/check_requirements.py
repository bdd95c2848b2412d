"""Requirement ids checked both ways: every id of spec/requirements has a test, every test names a known id.

Marks are collected from the syntax tree (`@pytest.mark.requirement("L1", …)`, also inside
`pytest.param(marks=…)`), so no test module is imported. TypeScript tests name ids in their title as
`[D43]`.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TITLE_ID = re.compile(r"\[((?:[LD]\d+)(?:,\s*[LD]\d+)*)\]")

Places = dict[str, list[str]]


def known_ids(folder: Path) -> dict[str, str]:
    """id → sentence. Raises SystemExit for an id that stands twice or lacks a field."""
    known: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["requirements"]:
            if set(row) != {"id", "sentence", "source"} or not all(row.values()):
                raise SystemExit(f"{path.name}: a row needs exactly id, sentence and source: {row}")
            if row["id"] in known:
                raise SystemExit(f"{path.name}: {row['id']} stands twice")
            known[row["id"]] = row["sentence"]
    return known


def marks_in(source: str) -> list[tuple[str, int]]:
    """(id, line) of every requirement mark in one Python module. Raises ValueError for a computed id."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("mark.requirement"):
            continue
        for argument in node.args:
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                raise ValueError(f"line {node.lineno}: a requirement id must be written out")
            found.append((argument.value, node.lineno))
    return found


def titles_in(source: str) -> list[tuple[str, int]]:
    """(id, line) of every id in a TypeScript test title."""
    found: list[tuple[str, int]] = []
    for number, line in enumerate(source.splitlines(), start=1):
        for match in TITLE_ID.finditer(line):
            found += [(name.strip(), number) for name in match.group(1).split(",")]
    return found


def collect(root: Path) -> Places:
    places: Places = defaultdict(list)
    for path in sorted((root / "tests").rglob("*.py")):
        for name, line in marks_in(path.read_text(encoding="utf-8")):
            places[name].append(f"{path.relative_to(root)}:{line}")
    for path in sorted((root / "web").rglob("*.test.ts*")):
        if "node_modules" not in path.parts:
            for name, line in titles_in(path.read_text(encoding="utf-8")):
                places[name].append(f"{path.relative_to(root)}:{line}")
    return places


def differences(known: dict[str, str], places: Places) -> list[str]:
    """Sentences about ids without a test and tests without an id; empty when both agree."""
    missing = [f"no test names {name}: {sentence}" for name, sentence in known.items() if name not in places]
    strange = [f"unknown id {name} in {', '.join(places[name])}" for name in sorted(set(places) - set(known))]
    return missing + strange


def main() -> int:
    known, places = known_ids(ROOT / "spec/requirements"), collect(ROOT)
    complaints = differences(known, places)
    print("\n".join(complaints), end="\n" if complaints else "")
    tests = sum(len(where) for where in places.values())
    print(f"{len(known)} requirements, {tests} marks, {len(complaints)} differences")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
