"""How long things are kept, as the environment says it: `LINELOOP_KEEP=messages=90,calls=30`.

Decides which name belongs to the server and which to the device; either takes its own from one text.
"""

from __future__ import annotations

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.kit.records import record

_HINT = "for example LINELOOP_KEEP=messages=365,envelopes=7,runs=90,calls=90,audit=365, in days"


# As the parts name them; not read from there, because a server does not load the device.
SERVER_KEEPS = ("messages", "envelopes", "runs", "ledger")
DEVICE_KEEPS = ("calls", "inbox", "outbox", "audit", "sessions")


@record
class Kept:
    """Days by name, as the Retention of each part takes them."""

    server: dict[str, float]
    device: dict[str, float]


def kept_of(text: str | None) -> Kept:
    """Raises CommandFailed for what is not understood: a wrong guess would remove something."""
    names = (SERVER_KEEPS, DEVICE_KEEPS)
    days: dict[str, float] = {}
    for part in (text or "").split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if not name and not value:
            continue
        if not any(name in known for known in names) or name in days:
            raise CommandFailed(
                f"LINELOOP_KEEP: {name!r} is not kept, or named twice", Exit.USAGE, hint=_HINT
            )
        days[name] = _days(name, value)
    server, device = ({name: days[name] for name in known if name in days} for known in names)
    return Kept(server, device)


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
