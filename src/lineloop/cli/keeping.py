"""How long things are kept, as the environment says it: `LINELOOP_KEEP=messages=90,envelopes=7`."""

from __future__ import annotations

from dataclasses import fields

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.server.settings import Retention

_HINT = "for example LINELOOP_KEEP=messages=365,envelopes=7,runs=90,ledger=30, in days"


def retention_of(text: str | None) -> Retention:
    """Raises CommandFailed for what is not understood: a wrong guess would remove something."""
    names = [one.name for one in fields(Retention)]
    days: dict[str, float] = {}
    for part in (text or "").split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if not name and not value:
            continue
        if name not in names or name in days:
            raise CommandFailed(
                f"LINELOOP_KEEP: {name!r} is not kept, or named twice", Exit.USAGE, hint=_HINT
            )
        days[name] = _days(name, value)
    return Retention(**days)


def _days(name: str, value: str) -> float:
    try:
        days = float(value)
    except ValueError:
        days = 0.0
    if not 0.04 <= days <= 36_500:
        raise CommandFailed(
            f"LINELOOP_KEEP: {name} is kept for an hour (0.04) to 36500 days", Exit.USAGE, hint=_HINT
        )
    return days
