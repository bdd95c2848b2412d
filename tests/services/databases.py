"""`--database=postgres`: the servers of tests keep their data in a PostgreSQL of the test run's own.

Decides when it starts (with the first test that needs it) and that each test finds a database of its own with
the schema and nothing in it: copied from one that has the schema, or emptied after another test.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.services.postgres import PostgresServer

from lineloop.kit.engines import ensure_schema
from lineloop.server.migrations import HEAD
from lineloop.testing.databases import PACKAGE, choose

TEMPLATE = "template_server"
# Rows go one by one: tables are small, and TRUNCATE makes new files for each of them and its indexes.
_EMPTY = """
DO $$
DECLARE name TEXT;
BEGIN
    SET LOCAL lock_timeout = '10s';
    SET LOCAL session_replication_role = replica;
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
        EXECUTE format('DELETE FROM %I', name);
        IF to_regclass(format('seeds.%I', name)) IS NOT NULL THEN
            EXECUTE format('INSERT INTO %I SELECT * FROM seeds.%I', name, name);
        END IF;
    END LOOP;
END $$
"""
# What a new database has in it is kept beside, and put back.
_KEEP_SEEDS = """
DO $$
DECLARE name TEXT; seeded BOOLEAN;
BEGIN
    CREATE SCHEMA seeds;
    FOR name IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'public' AND tablename <> 'alembic_version' LOOP
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM public.%I)', name) INTO seeded;
        IF seeded THEN
            EXECUTE format('CREATE TABLE seeds.%I AS SELECT * FROM public.%I', name, name);
        END IF;
    END LOOP;
END $$
"""


class TestDatabases:
    """The databases of the running test, by the paths that stand for them."""

    __test__ = False

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._urls: dict[Path, str] = {}
        self._empty: list[str] = []
        ensure_schema(server.create(TEMPLATE), package=PACKAGE, head=HEAD)
        server.sql(_KEEP_SEEDS, TEMPLATE)

    def of(self, path: Path) -> str:
        if path not in self._urls:
            self._urls[path] = self._empty.pop() if self._empty else self._server.create(template=TEMPLATE)
        return self._urls[path]

    def empty(self) -> None:
        """What the test used, for the next one: emptying takes a tenth of making a database."""
        for url in self._urls.values():
            self._server.sql(_EMPTY, url.rpartition("/")[2])
            self._empty.append(url)
        self._urls.clear()


@pytest.fixture(scope="session")
def postgres_server() -> Generator[PostgresServer]:
    """One PostgreSQL for the tests of this process; skips, or fails in CI, where there is none."""
    with PostgresServer.started() as server:
        yield server


@pytest.fixture(scope="session")
def test_databases(postgres_server: PostgresServer) -> TestDatabases:
    return TestDatabases(postgres_server)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Generator[str]:
    """An empty database."""
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


@pytest.fixture(autouse=True)
def chosen_database(request: pytest.FixtureRequest) -> Generator[None]:
    """Applies `--database` to this test."""
    if request.config.getoption("--database") != "postgres":
        yield
        return
    if request.node.get_closest_marker("sqlite"):
        pytest.skip("about SQLite files")
    databases: TestDatabases = request.getfixturevalue("test_databases")
    choose(databases.of)
    try:
        yield
    finally:
        choose(None)
        databases.empty()
