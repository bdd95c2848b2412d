"""Opening a connection: what a server must be, how a session is set up, and words for why it is not to be.

Passwords are in URLs: nothing here, and nobody behind, shows more of one than host, port and database.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lineloop.kit.postgres.failures import ConnectionLost
from lineloop.kit.postgres.session import Session
from lineloop.kit.storage_errors import DatabaseUnavailable

OLDEST_VERSION: Final = 150000
CONNECT_SECONDS: Final = 5
LOCK_MS: Final = 5_000
STATEMENT_MS: Final = 30_000
# A process that was stopped in a transaction holds its locks: after this the server takes them back.
IDLE_IN_TRANSACTION_MS: Final = 10_000

# A peer that is gone without a word is noticed within seconds, unless the URL says otherwise.
_DEFAULTS: Final = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "lineloop",
}
SETTINGS: dict[str, int] = {
    "lock_timeout": LOCK_MS,
    "statement_timeout": STATEMENT_MS,
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MS,
}
_FACTS = """
SELECT pg_is_in_recovery(), current_setting('server_encoding'), current_setting('synchronous_commit'),
    current_setting('transaction_read_only')
"""


class UnusableServer(DatabaseUnavailable):
    """The server answers, but is not one that Lineloop can keep its promises on; trying again is no use."""


def parsed(url: str) -> dict[str, Any]:
    """The parts of a URL, with our defaults. Raises UnusableServer for a text that is no such URL."""
    with contextlib.suppress(psycopg.ProgrammingError):
        return {**_DEFAULTS, **conninfo_to_dict(url)}
    # Raised out here: the driver's words quote the text, and so maybe the password.
    raise UnusableServer("this is no PostgreSQL URL (postgresql://user@host:port/database)")


def shown(url: str) -> str:
    """Where a URL leads, without its secrets."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "an unreadable URL"
    host = parts.get("host") or "the local socket"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"


def connect(url: str) -> psycopg.Connection[Any]:
    """A checked connection with autocommit. Raises ConnectionLost when another try may do, else
    UnusableServer.
    """
    try:
        connection = psycopg.connect(make_conninfo(**parsed(url)), autocommit=True)
    except psycopg.OperationalError as error:
        words = _words(error)
        if _is_refused_for_good(error, words):
            raise UnusableServer(f"{shown(url)}: {words}") from None
        raise ConnectionLost(f"{shown(url)}: {words}") from None
    try:
        _check(connection)
    except psycopg.Error as error:
        connection.close()
        raise ConnectionLost(f"{shown(url)}: {_words(error)}") from None
    except DatabaseUnavailable as error:
        connection.close()
        raise UnusableServer(f"{shown(url)}: {error}") from None
    except ConnectionLost as error:
        connection.close()
        raise ConnectionLost(f"{shown(url)}: {error}") from None
    return connection


def open_session(url: str) -> Session:
    """A session of a server that takes writes. Raises as `connect`."""
    return Session(connect(url))


def _check(connection: psycopg.Connection[Any]) -> None:
    if connection.info.server_version < OLDEST_VERSION:
        version = connection.info.server_version // 10000
        raise UnusableServer(f"PostgreSQL {version} is too old; 15 or newer is needed")
    connection.execute("SET client_encoding = 'UTF8'")
    row = connection.execute(_FACTS).fetchone()
    assert row is not None
    in_recovery, encoding, synchronous, read_only = row
    if encoding != "UTF8":
        raise UnusableServer(
            f"the database has the encoding {encoding}; make it with CREATE DATABASE … ENCODING 'UTF8'"
        )
    if in_recovery or read_only == "on":
        # After a failover the same name may lead to the new primary a moment later.
        raise ConnectionLost("the server only reads (a standby); the primary is needed")
    if synchronous == "off":
        # An answer would leave before the commit is durable.
        connection.execute("SET synchronous_commit = on")
    for name, value in SETTINGS.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))


def _is_refused_for_good(error: psycopg.Error, words: str) -> bool:
    """Whether who connects is wrong, rather than the moment."""
    state = error.sqlstate or ""
    # 28: who one is; 3D: no such database; 42501: not allowed. A refusal while connecting has no SQLSTATE in
    # the driver, only libpq's words.
    return state.startswith(("28", "3D", "42501")) or any(
        told in words
        for told in ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password")
    )


def _words(error: psycopg.Error) -> str:
    """The first line, which names the cause; further ones repeat it for each address."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
