"""What a PostgreSQL is like, for who asks whether it can be used."""

from __future__ import annotations

from lineloop.kit.postgres.connecting import connect, shown
from lineloop.kit.postgres.failures import ConnectionLost
from lineloop.kit.postgres.schema import revision_of
from lineloop.kit.records import record
from lineloop.kit.storage_errors import DatabaseUnavailable


@record
class Examined:
    """`revision` is that of the schema, None where there is none. Without `fsync` nothing is durable."""

    where: str
    version: str
    revision: str | None
    fsync: bool


def examine(url: str) -> Examined:
    """Raises DatabaseUnavailable when it cannot be used."""
    try:
        with connect(url) as connection:
            row = connection.execute("SHOW fsync").fetchone()
            version = connection.info.parameter_status("server_version") or ""
        return Examined(shown(url), version.split()[0], revision_of(url), row is not None and row[0] == "on")
    except ConnectionLost as error:
        raise DatabaseUnavailable(str(error)) from error
