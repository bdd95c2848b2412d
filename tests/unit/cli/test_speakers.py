"""Names of speakers: friendly while they are unmistakable, full where somebody could pass for another."""

from __future__ import annotations

import pytest

from lineloop.cli.chat.speakers import Profile, Speakers
from lineloop.protocol.actors import Actor


def op(key: str) -> Actor:
    return Actor("operator", key)


def named(*profiles: tuple[str, str]) -> Speakers:
    speakers = Speakers()
    speakers.learn([Profile(op(key), name) for key, name in profiles])
    return speakers


def test_an_operator_goes_by_its_display_name_and_unknown_ones_by_their_key() -> None:
    speakers = named(("assistant", "Assistant"))
    assert speakers.name(op("assistant")) == "Assistant"
    assert speakers.name(op("echo")) == "echo"
    assert speakers.name(Actor("user", "local")) == "you"
    assert speakers.name(Actor("runtime", "device_1")) == "device"


@pytest.mark.parametrize(
    ("key", "name", "shown"),
    [
        ("you", "you", "you (operator/you)"),
        ("x", "You", "You (operator/x)"),
        ("x", "y\u202eou\x1b", "you (operator/x)"),
        ("device", "Device", "Device (operator/device)"),
        ("x", "Echo (operator/echo)", "Echo (operator/echo) (operator/x)"),
        ("x", " \u200e ", "x"),
    ],
)
def test_a_name_that_could_pass_for_another_shows_the_actor(key: str, name: str, shown: str) -> None:
    assert named((key, name)).name(op(key)) == shown


def test_two_of_one_name_are_told_apart() -> None:
    speakers = named(("assistant", "Assistant"), ("evil", "assistant"))
    assert speakers.name(op("assistant")) == "Assistant (operator/assistant)"
    assert speakers.name(op("evil")) == "assistant (operator/evil)"


def test_away_is_said_only_of_what_is_known() -> None:
    assert not Speakers().is_away(op("x"))
    assert named(("x", "X")).is_away(op("y"))
    assert not named(("x", "X")).is_away(op("x"))
