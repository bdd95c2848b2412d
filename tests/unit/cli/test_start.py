"""What a start loads: nothing that only other commands, tests or later moments need (benchmark B8)."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The modules that the composition of `up` names; each imports what it needs.
UP = (
    "lineloop.cli.commands",
    "lineloop.cli.up",
    "lineloop.cli.device",
    "lineloop.cli.listening",
    "lineloop.cli.serve",
    "lineloop.cli.surroundings",
    "lineloop.client.in_process",
    "lineloop.client.loop",
    "lineloop.operators.assistant",
    "lineloop.operators.worker",
)
HEAVY = (
    "sqlalchemy",
    "alembic",
    "rich",
    "pygments",
    "httpx",
    "httpx_sse",
    "fastapi",
    "prometheus_client",
    "attr",
    "openai",
    "httpx2",
)


def loaded_by(*modules: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after a start's imports."""
    code = (
        "import importlib, sys\n"
        "from lineloop.cli import quick_start\n"
        "quick_start.begin()\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(*[name for name in {HEAVY!r} if sys.modules.get(name)])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_starting_everything_loads_no_library_that_it_does_not_need() -> None:
    assert loaded_by(*UP) == set()


@pytest.mark.parametrize("module", ["lineloop", "lineloop.cli.commands"])
def test_help_loads_no_part_of_the_system(module: str) -> None:
    parts = ("lineloop.server", "lineloop.device", "starlette", "pydantic")
    code = f"import {module}, sys; print(*[name for name in sys.modules if name.startswith({parts!r})])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
