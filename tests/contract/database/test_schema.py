"""PostgreSQL is refused with a reason, or brought to the schema once, however many servers start."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.services.postgres import PostgresServer

import lineloop.control
import lineloop.server
from lineloop.kit.clock import SystemClock
from lineloop.kit.engines import ensure_schema, open_database, shown
from lineloop.kit.postgres import connecting
from lineloop.kit.postgres.statements import translated
from lineloop.kit.storage_errors import DatabaseTooNew, DatabaseUnavailable
from lineloop.server.migrations import HEAD
from lineloop.testing.databases import PACKAGE

SECRET = "not-to-be-told"
_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b.*\b(FROM|INTO|SET)\b", re.DOTALL)


def shape(url: str) -> list[tuple[Any, ...]]:
    """Every column, index and constraint."""
    with psycopg.connect(url) as connection:
        return [
            *connection.execute(
                "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name "
                "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
            ),
            *connection.execute("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"),
            *connection.execute(
                "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
                "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
            ),
        ]


def first_schema(url: str) -> None:
    """As a server of the first version left it, with a conversation."""
    statements = importlib.import_module(f"{PACKAGE}.first_ddl").first_statements(sqlite=False)
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.execute(
            "INSERT INTO conversations (id, name, owner_kind, owner_key, root_id, actor_kind, actor_key, "
            "last_ordinal, created_at) VALUES ('con_1', 'old', 'user', 'local', 'con_1', '', '', 3, 1)"
        )


@pytest.mark.requirement("R6")
async def test_servers_that_upgrade_together_do_it_once_and_the_result_is_as_if_new(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    await asyncio.to_thread(first_schema, postgres_url)
    work = [asyncio.to_thread(ensure_schema, postgres_url, package=PACKAGE, head=HEAD) for _ in range(3)]
    await asyncio.gather(*work)
    fresh = postgres_server.create()
    ensure_schema(fresh, package=PACKAGE, head=HEAD)
    upgraded, new = shape(postgres_url), shape(fresh)
    postgres_server.drop(fresh)
    different = [row for row in upgraded if row not in new and "alembic_version" not in str(row)]
    assert different == []
    assert [row for row in new if row not in upgraded and "alembic_version" not in str(row)] == []
    name = postgres_url.rpartition("/")[2]
    assert postgres_server.sql("SELECT id, name, last_ordinal FROM conversations", name) == [
        ("con_1", "old", 3)
    ]


@pytest.mark.requirement("R6")
def test_a_newer_schema_is_left_as_it_is(postgres_server: PostgresServer, postgres_url: str) -> None:
    ensure_schema(postgres_url, package=PACKAGE, head=HEAD)
    name = postgres_url.rpartition("/")[2]
    postgres_server.sql("UPDATE alembic_version SET version_num = '0999'", name)
    with pytest.raises(DatabaseTooNew) as caught:
        ensure_schema(postgres_url, package=PACKAGE, head=HEAD)
    assert caught.value.revision == "0999"


async def refusal(url: str) -> str:
    with pytest.raises(DatabaseUnavailable) as caught:
        await open_database(url, clock=SystemClock())
    with pytest.raises(DatabaseUnavailable) as again:
        ensure_schema(url, package=PACKAGE, head=HEAD)
    assert str(again.value) == str(caught.value)
    words = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert SECRET not in words
    return str(caught.value)


@pytest.mark.requirement("R10")
async def test_what_cannot_keep_the_promises_is_refused_with_the_reason(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = postgres_url.rpartition("/")[2]
    port = postgres_server.port
    assert "no PostgreSQL URL" in await refusal(f"postgresql://me:{SECRET}@[broken/{name}")
    assert "refused" in await refusal(f"postgresql://me:{SECRET}@127.0.0.1:1/{name}")
    assert "does not exist" in await refusal(f"postgresql://lineloop:{SECRET}@127.0.0.1:{port}/nowhere")
    postgres_server.sql(
        "DO $$ BEGIN CREATE ROLE guarded LOGIN PASSWORD 'x'; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    )
    told = await refusal(f"postgresql://guarded:{SECRET}@127.0.0.1:{port}/{name}")
    assert "password authentication failed" in told
    latin = postgres_server.create(template="template0", options="ENCODING 'LATIN1' LOCALE 'C'")
    assert "LATIN1" in await refusal(latin)
    postgres_server.drop(latin)
    with monkeypatch.context() as patched:
        patched.setattr(connecting, "OLDEST_VERSION", 990000)
        assert "too old" in await refusal(postgres_url)
    postgres_server.sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    assert "only reads" in await refusal(postgres_url)


@pytest.mark.requirement("R10")
def test_where_a_database_is_is_told_without_secrets() -> None:
    assert shown(f"postgresql://me:{SECRET}@db.example:6543/team?sslmode=require") == "db.example:6543/team"
    assert SECRET not in shown(f"postgresql://me:{SECRET}@[broken")


def statements() -> Iterator[tuple[str, str]]:
    """Every SQL text that a module of the server or of the control plane holds whole."""
    for package in (lineloop.server, lineloop.control):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "migrations" in module.name:
                continue
            for name, value in vars(importlib.import_module(module.name)).items():
                is_sql = isinstance(value, str) and _SQL.match(value) and "{" not in value
                # Not what is SQLite's alone, nor what goes to the driver as it stands.
                if is_sql and not name.endswith("_SQLITE") and "%s" not in value:
                    yield f"{module.name}.{name}", value


@pytest.mark.requirement("L133")
def test_postgresql_understands_every_statement_of_the_server(postgres_url: str) -> None:
    ensure_schema(postgres_url, package=PACKAGE, head=HEAD)
    misunderstood: list[str] = []
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        found = dict(statements())
        for name, sql in found.items():
            text = sql if not sql.rstrip().endswith("WHERE") else f"{sql} 1 = 1"
            result = connection.pgconn.prepare(b"", translated(text).text)
            if result.status != psycopg.pq.ExecStatus.COMMAND_OK:
                misunderstood.append(f"{name}: {result.error_message.decode()}")
    assert misunderstood == []
    assert len(found) > 100
