"""How long things are kept: said clearly or refused."""

from __future__ import annotations

from dataclasses import fields

import pytest

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.keeping import DEVICE_KEEPS, SERVER_KEEPS, Kept, kept_of
from lineloop.device.settings import Retention as DeviceRetention
from lineloop.server.settings import Retention
from lineloop.settings import Settings


@pytest.mark.requirement("C15")
def test_days_are_said_by_name_and_the_rest_is_kept() -> None:
    assert kept_of(None) == kept_of("") == Kept({}, {})
    kept = kept_of("messages=90, envelopes=0.5, calls=30")
    assert Retention(**kept.server) == Retention(messages=90.0, envelopes=0.5)
    assert DeviceRetention(**kept.device) == DeviceRetention(calls=30.0)
    assert not Retention().is_on
    assert not DeviceRetention().is_on


def test_each_part_is_asked_for_what_it_keeps() -> None:
    assert tuple(one.name for one in fields(Retention)) == SERVER_KEEPS
    assert tuple(one.name for one in fields(DeviceRetention)) == DEVICE_KEEPS


@pytest.mark.requirement("C15")
@pytest.mark.parametrize(
    "text", ["message=1", "messages", "messages=", "messages=0", "messages=-1", "messages=nan", "=3",
             "messages=soon", "messages=1,messages=2", "messages=inf", "messages=0.001"]
)  # fmt: skip
def test_what_is_not_understood_removes_nothing(text: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        kept_of(text)
    assert refused.value.code == Exit.USAGE


@pytest.mark.requirement("C15")
def test_the_environment_says_it() -> None:
    said = Settings.from_environment({"LINELOOP_KEEP": "runs=1", "LINELOOP_BLOBS": "/srv/blobs"})
    assert (said.keep, str(said.blobs)) == ("runs=1", "/srv/blobs")
    assert (Settings.from_environment({}).keep, Settings.from_environment({}).blobs) == (None, None)
