"""What README and docs show is run: console sessions against a real system, make targets, links, Python
code.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "spec").glob("*.md")])
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
# What differs from run to run: clock times, elapsed seconds, ids, ports.
VARIES = re.compile(r"\d+:\d\d(?::\d\d)?|\b\d+ s\b|[0-9a-f]{8}-[0-9a-f-]{27}|_[0-9a-f]{32}|:\d{4,5}\b")


class Block(NamedTuple):
    page: str
    language: str
    code: str


def blocks(language: str) -> list[Block]:
    return [
        Block(str(page.relative_to(ROOT)), found.group(1), found.group(2))
        for page in PAGES
        for found in FENCE.finditer(page.read_text(encoding="utf-8"))
        if found.group(1) == language
    ]


def environment(data_dir: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LINELOOP_")}
    return {**clean, "LINELOOP_DATA_DIR": str(data_dir), "PYTHONUTF8": "1"}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running system."""
    folder = tmp_path_factory.mktemp("docs")
    ready, log = folder / "ready.json", folder / "log.txt"
    command = [sys.executable, "-m", "lineloop.cli", "up", "--server-port", "0", "--ready-file", str(ready)]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, env=environment(folder / "data"), stdout=sink, stderr=sink)
    try:
        end = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield folder / "data"
    finally:
        process.terminate()
        process.wait(15)


def sessions(code: str) -> Iterator[tuple[str, list[str]]]:
    """(command, expected lines) of a console block."""
    command: str | None = None
    expected: list[str] = []
    for line in code.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line.removeprefix("$ "), []
        elif line.strip():
            expected.append(line.rstrip())
    if command:
        yield command, expected


def steady(line: str) -> str:
    return VARIES.sub("…", line).rstrip()


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.page)
def test_console_sessions_show_what_really_comes(block: Block, data_dir: Path) -> None:
    for command, expected in sessions(block.code):
        words = shlex.split(command)
        assert words[0] == "lineloop", f"{block.page}: a console block shows lineloop commands: {command}"
        run = [sys.executable, "-m", "lineloop.cli", *words[1:]]
        done = subprocess.run(
            run, env=environment(data_dir), capture_output=True, text=True, timeout=120, cwd=ROOT, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        shown = [steady(line) for line in done.stdout.splitlines() if line.strip()]
        # Two speakers may speak in either order; what is said, and how often, is fixed.
        assert sorted(shown) == sorted(steady(line) for line in expected), command


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda block: block.page)
def test_make_targets_that_are_shown_exist(block: Block) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in block.code.splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["make"]:
            assert re.search(rf"^{re.escape(words[1])}:", makefile, re.MULTILINE), line


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.page)
def test_python_code_that_is_shown_can_be_imported(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "shown.py"
    path.write_text(block.code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_json_that_is_shown_is_json() -> None:
    for block in blocks("json"):
        json.loads(block.code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_operator_of_the_readme_is_the_example_that_the_other_tests_run() -> None:
    shown = [block.code for block in blocks("python") if block.page == "README.md"]
    assert (ROOT / "examples/echo.py").read_text(encoding="utf-8") in shown
