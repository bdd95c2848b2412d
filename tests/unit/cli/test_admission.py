"""Who is let in, under which names and how often: said clearly or refused."""

from __future__ import annotations

import pytest

from lineloop.cli.admission import admission_of, rates_of
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.server.settings import LOOPBACK_HOSTS, Rates
from lineloop.settings import Settings


@pytest.mark.requirement("P27")
def test_rates_are_said_by_name_and_the_rest_is_as_usual() -> None:
    assert rates_of(None) == rates_of("") == Rates()
    said = Rates(token=200.0, person=None, stranger=50.0, burst_seconds=5.0)
    assert rates_of("token=200, person=none,burst_seconds=5") == said


@pytest.mark.requirement("P28")
def test_without_a_word_only_this_machine_and_those_who_are_known_are_let_in() -> None:
    usual = admission_of({})
    assert (usual["hosts"], usual["origins"]) == (LOOPBACK_HOSTS, ())
    assert not usual["secure_cookies"]
    assert "open_sessions" not in usual
    assert "trusted_user_header" not in usual


@pytest.mark.requirement("P28")
def test_hosts_origins_and_people_are_said_exactly() -> None:
    said = Settings.from_environment(
        {
            "LINELOOP_HOSTS": "Chat.example.org, [fe80::1]",
            "LINELOOP_ORIGINS": "https://chat.example.org,http://localhost:3000",
            "LINELOOP_PEOPLE": "header:X-Auth-User",
            "LINELOOP_RATES": "token=9",
        }
    )
    let_in = admission_of(said.admission)
    assert let_in["hosts"] == (*LOOPBACK_HOSTS, "chat.example.org", "[fe80::1]")
    assert let_in["origins"] == ("https://chat.example.org", "http://localhost:3000")
    assert let_in["trusted_user_header"] == "X-Auth-User"
    assert let_in["secure_cookies"]
    assert let_in["rates"].token == 9
    assert admission_of({"people": "open"})["open_sessions"]
    assert Settings.from_environment({}).admission == {}


@pytest.mark.requirement("P27", "P28")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rates", "tokens=1"),
        ("rates", "token"),
        ("rates", "token=0"),
        ("rates", "token=nan"),
        ("rates", "token=inf"),
        ("rates", "token=1,token=2"),
        ("rates", "burst_seconds=none"),
        ("hosts", "chat.example.org:80"),
        ("hosts", "*"),
        ("hosts", "a b"),
        ("origins", "null"),
        ("origins", "*"),
        ("origins", "https://chat.example.org/"),
        ("origins", "ftp://chat.example.org"),
        ("people", "everybody"),
        ("people", "header:"),
        ("people", "header:a b"),
        ("people", "header:Cookie"),
    ],
)
def test_what_is_not_understood_lets_nobody_in(name: str, text: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        admission_of({name: text})
    assert refused.value.code == Exit.USAGE
