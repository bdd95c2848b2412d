"""Finding operators in files and modules, and the sentence each mistake gets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lineloop.operators.loading import load_operator
from lineloop.protocol.errors import InvalidRequest, NotFound

ONE = """
from lineloop import Operator, Turn
operator = Operator("one", display_name="One")
@operator.reconcile
async def reconcile(turn: Turn) -> None: ...
"""


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("_operator_", "neighbour", "module_of")):
            del sys.modules[name]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_only_operator_of_a_file_needs_no_name(tmp_path: Path) -> None:
    assert load_operator(str(written(tmp_path, "one.py", ONE))).key == "one"


def test_a_file_may_import_its_neighbours_and_does_not_shadow_other_modules(tmp_path: Path) -> None:
    written(tmp_path, "neighbour.py", ONE)
    path = written(tmp_path, "json.py", "from neighbour import operator")
    import json

    assert load_operator(str(path)).key == "one"
    assert sys.modules["json"] is json


def test_several_operators_need_a_name(tmp_path: Path) -> None:
    two = ONE + "\nother = Operator('two', display_name='Two')\nother.reconcile(reconcile)\n"
    path = written(tmp_path, "two.py", two)
    with pytest.raises(InvalidRequest, match="operator, other"):
        load_operator(str(path))
    assert load_operator(f"{path}:other").key == "two"


def test_a_module_is_found_by_its_dotted_name(tmp_path: Path) -> None:
    written(tmp_path, "module_of_operators.py", ONE)
    sys.path.insert(0, str(tmp_path))
    assert load_operator("module_of_operators:operator").key == "one"


@pytest.mark.parametrize(
    ("reference", "error"),
    [
        ("missing.py", NotFound),
        ("missing.py:operator", NotFound),
        ("no_such_module_anywhere", NotFound),
        ("lineloop.protocol.actors", InvalidRequest),
        ("lineloop.protocol.actors:nothing", NotFound),
        ("lineloop.protocol.actors:Actor", InvalidRequest),
        ("not a module", InvalidRequest),
        ("", InvalidRequest),
    ],
)
def test_what_cannot_be_found_is_named(reference: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load_operator(reference)


def test_a_file_that_fails_to_import_says_why_and_chains_the_cause(tmp_path: Path) -> None:
    path = written(tmp_path, "broken.py", "import no_such_module_here")
    with pytest.raises(InvalidRequest, match="no_such_module_here") as caught:
        load_operator(str(path))
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_an_operator_without_a_function_is_refused(tmp_path: Path) -> None:
    path = written(
        tmp_path, "idle.py", "from lineloop import Operator\noperator = Operator('a', display_name='A')"
    )
    with pytest.raises(InvalidRequest, match="reconcile"):
        load_operator(str(path))


def test_a_second_reconcile_function_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "twice.py", ONE + "\noperator.reconcile(reconcile)\n")
    with pytest.raises(InvalidRequest, match="already"):
        load_operator(str(path))
