"""Facts about the database itself, by name. SQL only."""

from __future__ import annotations

from lineloop.kit.database import Tx

_GET = "SELECT value FROM meta WHERE name = :name"
_PUT = "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value"
# Only where several servers share a database: a file has the clock of its machine.
_CLOCK = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
_KEEP = "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING"


def database_ms(tx: Tx) -> int:
    """What the clock of the database's server shows, in milliseconds since 1970."""
    row = tx.one(_CLOCK)
    assert row is not None
    return row[0]


def get(tx: Tx, name: str) -> str | None:
    row = tx.one(_GET, {"name": name})
    return row[0] if row else None


def put(tx: Tx, name: str, value: str) -> None:
    tx.run(_PUT, {"name": name, "value": value})


def keep(tx: Tx, name: str, value: str) -> str:
    """The stored value; `value` becomes it when there is none."""
    tx.run(_KEEP, {"name": name, "value": value})
    return get(tx, name) or value
