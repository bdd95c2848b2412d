"""The package root: what it promises and how light it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lineloop


def test_every_public_name_exists_and_nothing_else_is_public() -> None:
    assert sorted(lineloop.__all__) == lineloop.__all__
    for name in lineloop.__all__:
        assert getattr(lineloop, name).__name__ == name
    assert set(lineloop.__all__) <= set(dir(lineloop))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = lineloop.nonsense  # pyright: ignore


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import lineloop, sys; print([m for m in sys.modules if m.startswith('lineloop.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
