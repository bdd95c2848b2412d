"""Every verb says what it does to the server, what it raises and where the protocol says so."""

from __future__ import annotations

import inspect
import re

import pytest

from lineloop.client import Call, Conversation, Loop, MessageHandle, QuestionHandle
from lineloop.client.harness import Harness
from lineloop.client.human import Human
from lineloop.client.presence import Presence

KINDS = (Loop, Conversation, MessageHandle, QuestionHandle, Call, Human, Harness, Presence)
# These talk to nobody, or pass on what they are told.
NO_VERBS = {"Loop.close", "Loop.request"}
VERBS = [
    (f"{kind.__name__}.{name}", one)
    for kind in KINDS
    for name, one in vars(kind).items()
    if not name.startswith("_")
    and f"{kind.__name__}.{name}" not in NO_VERBS
    and (
        inspect.iscoroutinefunction(inspect.unwrap(getattr(one, "__func__", one)))
        or inspect.isasyncgenfunction(one)
    )
]


@pytest.mark.requirement("P31")
@pytest.mark.parametrize(("name", "verb"), VERBS, ids=[name for name, _ in VERBS])
def test_a_verb_says_its_effect_its_errors_and_its_section(name: str, verb: object) -> None:
    words = inspect.getdoc(verb) or ""
    assert re.search(r"\[(read|write)\]", words), name
    assert re.search(r"\bRaises\b|\bNever raises\b", words), name
    assert re.search(r"Spec:\s+spec/protocol\.md\s+§\d", words), name


@pytest.mark.requirement("P31")
def test_there_is_no_way_of_talking_to_the_server_that_blocks() -> None:
    assert len(VERBS) > 30
    for kind in KINDS:
        for name, one in vars(kind).items():
            if name.startswith("_") or not callable(one) or inspect.iscoroutinefunction(one):
                continue
            assert "[read]" not in (inspect.getdoc(one) or "") or name in {"export", "download", "stream"}, (
                name
            )
