"""How long things are kept: said clearly or refused."""

from __future__ import annotations

import pytest

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.keeping import retention_of
from lineloop.server.settings import Retention
from lineloop.settings import Settings


@pytest.mark.requirement("C15")
def test_days_are_said_by_name_and_the_rest_is_kept() -> None:
    assert retention_of(None) == Retention()
    assert not retention_of("").is_on
    assert retention_of("messages=90, envelopes=0.5") == Retention(messages=90.0, envelopes=0.5)


@pytest.mark.requirement("C15")
@pytest.mark.parametrize(
    "text", ["message=1", "messages", "messages=", "messages=0", "messages=-1", "messages=nan", "=3",
             "messages=soon", "messages=1,messages=2", "messages=inf", "messages=0.001"]
)  # fmt: skip
def test_what_is_not_understood_removes_nothing(text: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        retention_of(text)
    assert refused.value.code == Exit.USAGE


@pytest.mark.requirement("C15")
def test_the_environment_says_it() -> None:
    said = Settings.from_environment({"LINELOOP_KEEP": "runs=1", "LINELOOP_BLOBS": "/srv/blobs"})
    assert (said.keep, str(said.blobs)) == ("runs=1", "/srv/blobs")
    assert (Settings.from_environment({}).keep, Settings.from_environment({}).blobs) == (None, None)
