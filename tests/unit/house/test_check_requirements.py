"""Requirement ids are compared both ways, from source text alone."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
TESTS = Path(__file__).parents[2]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{name}", TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check_requirements = tool("check_requirements")
tally = tool("tally")


def test_marks_are_found_on_functions_classes_and_single_parameters() -> None:
    source = """
@pytest.mark.requirement("L1", "L2")
def test_a(): ...
CASE = pytest.param(1, marks=pytest.mark.requirement("D3"))
@mark.requirement("L4")
class TestB: ...
"""
    assert sorted(check_requirements.marks_in(source)) == [("D3", 4), ("L1", 2), ("L2", 2), ("L4", 5)]


def test_a_computed_id_is_refused_because_nobody_can_search_for_it() -> None:
    with pytest.raises(ValueError, match="written out"):
        check_requirements.marks_in("@pytest.mark.requirement(NAME)\ndef test_a(): ...")


def test_typescript_titles_name_ids_in_brackets() -> None:
    source = 'it("listener sees one sequence [D43]", () => {});\nit("x [L1, L2]", f); const a = list[3];'
    assert check_requirements.titles_in(source) == [("D43", 1), ("L1", 2), ("L2", 2)]


def test_both_directions_are_told() -> None:
    told = check_requirements.differences({"L1": "one", "L2": "two"}, {"L1": ["a:1"], "L9": ["b:2"]})
    assert told == ["no test names L2: two", "unknown id L9 in b:2"]


def test_an_id_that_stands_twice_is_refused(tmp_path: Path) -> None:
    row = '{"requirements": [{"id": "L1", "sentence": "s", "source": "x"}]}'
    (tmp_path / "a.json").write_text(row)
    (tmp_path / "b.json").write_text(row)
    with pytest.raises(SystemExit, match="twice"):
        check_requirements.known_ids(tmp_path)


def test_the_tally_adds_up_and_tells_skipped_tests_only_when_there_are_some() -> None:
    run = tally.Tally()
    run.outcomes["a"] = tally.Outcome(True, 3, 0, 0)
    assert run.closing_line() == "3 passed, 0 failed"
    run.outcomes["b"] = tally.Outcome(False, 1, 2, 4)
    assert run.closing_line() == "4 passed, 2 failed, 4 skipped"
    assert run.failures() == ["b"]


def test_a_suite_that_runs_no_test_fails(capsys: pytest.CaptureFixture[str]) -> None:
    part = tally.Part([sys.executable, "-c", "print('nothing here')"], "pytest")
    assert tally.run("empty", part) == tally.Outcome(False, 0, 0, 0)
    assert "ran no test" in capsys.readouterr().out


def test_a_failing_gate_fails_and_its_words_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = tally.run("gate", tally.Part([sys.executable, "-c", "print('why'); raise SystemExit(3)"]))
    assert not outcome.ok
    assert "why" in capsys.readouterr().out


def test_a_part_that_hangs_is_ended_with_what_it_started_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "LONGEST_SECONDS", 0.1)
    hanging = ["sh", "-c", "sleep 100 & sleep 100"]
    assert not tally.run("stuck", tally.Part(hanging)).ok
    assert "something hangs" in capsys.readouterr().out


def test_reports_of_both_runners_are_read(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    junit.write_text(
        '<testsuites><testsuite tests="5" failures="1" errors="1" skipped="1">'
        '<testcase classname="tests.a" name="test_b"><failure/></testcase><testcase name="test_c"/>'
        "</testsuite></testsuites>"
    )
    assert tally.pytest_counts(junit) == (2, 2, 1)
    assert tally.pytest_failures(junit) == ("tests.a::test_b",)
    vitest = tmp_path / "vitest.json"
    tests = [{"fullName": "goes", "status": "passed"}, {"fullName": "breaks", "status": "failed"}]
    numbers = {"numPassedTests": 7, "numFailedTests": 0, "numPendingTests": 1}
    vitest.write_text(json.dumps({**numbers, "testResults": [{"assertionResults": tests}]}))
    assert tally.vitest_counts(vitest) == (7, 0, 1)
    assert tally.vitest_failures(vitest) == ("breaks",)


def test_parts_run_beside_each_other_as_far_as_there_are_lanes() -> None:
    one, both = tally.Part([]), tally.Part([], lanes=tally.LANES)
    parts = {"a": one, "b": both, "c": one, "d": both}
    busy: list[int] = []
    at_once: list[int] = []
    c_runs = threading.Event()

    def run(name: str, part: Any) -> Any:
        busy.append(part.lanes)
        at_once.append(sum(busy))
        if name == "c":
            c_runs.set()
        elif name == "a":
            assert c_runs.wait(10), "c does not run beside a"
        busy.remove(part.lanes)
        return tally.Outcome(True)

    assert tally.run_all(list(parts), parts, run).keys() == parts.keys()
    assert max(at_once) == tally.LANES


def test_groups_name_each_part_once_and_unknown_names_are_refused() -> None:
    assert tally.chosen(["check", "quick"]).count("quick") == 1
    # What is quick is a part of what `types`, `inside` and `web` do.
    quick = {"types-quick", "quick", "web-quick"}
    assert set(tally.chosen(["check"])) - quick < set(tally.chosen(["test"]))
    assert {"types", "inside", "web", *tally.GATES} <= set(tally.chosen(["test"]))
    with_tests = {word for name in tally.chosen(["test"]) for word in tally.PARTS[name].command}
    folders = {f"tests/{path.name}" for path in TESTS.iterdir() if any(path.rglob("test_*.py"))}
    assert folders <= with_tests
    with pytest.raises(SystemExit, match="no part"):
        tally.chosen(["nonsense"])
