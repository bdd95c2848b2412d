"""Who may bring in whom by naming them: the rule alone."""

from __future__ import annotations

import pytest

from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import Forbidden
from lineloop.server.decide.access import Grant, admin_grant
from lineloop.server.decide.membership import decide_naming

OWNER, BOB, ECHO = Actor("user", "ann"), Actor("user", "bob"), Actor("operator", "echo")


@pytest.mark.requirement("SV3")
@pytest.mark.parametrize(
    ("named", "by", "is_beside"),
    [
        (BOB, Grant(OWNER), False),
        (BOB, admin_grant(), False),
        (BOB, None, False),
        (ECHO, Grant(ECHO), False),
        (Actor("operator/echo", "critic"), Grant(ECHO), False),
        (Actor("operator/planner", "critic"), Grant(ECHO), True),
        (Actor("harness", "run-1"), Grant(ECHO), False),
    ],
)
def test_these_are_brought_in(named: Actor, by: Grant | None, is_beside: bool) -> None:
    decide_naming(named, by, owner=OWNER, is_beside=is_beside)


@pytest.mark.requirement("SV3")
@pytest.mark.parametrize(
    ("named", "by"),
    [
        (BOB, Grant(ECHO)),
        (BOB, Grant(Actor("user", "carl"))),
        (BOB, Grant(Actor("operator", "*"))),
        (Actor("operator", "planner"), Grant(ECHO)),
        (Actor("harnesses", "x"), Grant(ECHO)),
    ],
)
def test_these_are_not(named: Actor, by: Grant) -> None:
    with pytest.raises(Forbidden, match="owner invites"):
        decide_naming(named, by, owner=OWNER, is_beside=False)
