"""Who is let in to a server, under which names and how often, as the environment says it.

Decides words only: LINELOOP_HOSTS, LINELOOP_ORIGINS, LINELOOP_PEOPLE, LINELOOP_RATES. What they mean is the
server's (server/settings.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.server.settings import LOOPBACK_HOSTS, Rates

NO_LIMIT = "none"
MAX_RATE = 1_000_000.0
_HOST = re.compile(r"^(\[[0-9a-fA-F:.]+\]|[0-9A-Za-z._-]+)$")
_HEADER = re.compile(r"^[0-9A-Za-z-]+$")
# What carries credentials or the request itself is nobody's name.
_NO_NAMES = frozenset({"authorization", "cookie", "host", "origin", "x-lineloop-secret"})


def admission_of(said: Mapping[str, str]) -> dict[str, Any]:
    """Fields of ServerSettings. Raises CommandFailed (2) for what is not understood."""
    origins = tuple(_origin(one) for one in _words(said.get("origins")))
    settings: dict[str, Any] = {
        "hosts": (*LOOPBACK_HOSTS, *(_host(one) for one in _words(said.get("hosts")))),
        "origins": origins,
        "secure_cookies": any(one.startswith("https://") for one in origins),
        "rates": rates_of(said.get("rates")),
    }
    people = said.get("people", "cookies")
    kind, _, header = people.partition(":")
    if kind == "header" and _HEADER.match(header) and header.lower() not in _NO_NAMES:
        settings["trusted_user_header"] = header
    elif people == "open":
        settings["open_sessions"] = True
    elif people != "cookies":
        raise _not_understood("PEOPLE", people, "cookies, open, or header:NAME")
    return settings


def rates_of(text: str | None) -> Rates:
    """`token=200,person=50,stranger=none`. Raises CommandFailed (2)."""
    names = [one.name for one in fields(Rates)]
    given: dict[str, float | None] = {}
    for part in _words(text):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in names or name in given:
            raise _not_understood("RATES", part, f"each of {', '.join(names)} once")
        given[name] = None if value == NO_LIMIT and name != "burst_seconds" else _rate(part, value)
    return Rates(**given)  # pyright: ignore[reportArgumentType]


def _rate(part: str, value: str) -> float:
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0.01 <= rate <= MAX_RATE:
        raise _not_understood("RATES", part, f"a number from 0.01 to {MAX_RATE:g}, or {NO_LIMIT}")
    return rate


def _host(name: str) -> str:
    if not _HOST.match(name):
        raise _not_understood("HOSTS", name, "names without port, separated by commas")
    return name.lower()


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if (
        parts.scheme not in ("http", "https")
        or text != f"{parts.scheme}://{parts.netloc}"
        or not parts.hostname
    ):
        raise _not_understood("ORIGINS", text, "for example https://chat.example.org, without a path")
    return text


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _not_understood(name: str, text: str, hint: str) -> CommandFailed:
    return CommandFailed(f"LINELOOP_{name}: {text!r} is not understood", Exit.USAGE, hint=hint)
