"""A database that an earlier version wrote is upgraded, backed up before, and goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.server.calls import emit, end, get, history, set_text, speak, text_of

from lineloop.server.migrations import HEAD
from lineloop.testing.server_world import server_world

pytestmark = pytest.mark.sqlite

FIRST = Path(__file__).parents[2] / "fixtures" / "databases" / "server-0001.sql"


@pytest.fixture
def old_database(tmp_path: Path) -> Path:
    """Written by the first version: a conversation with messages, an open stream and an open question."""
    path = tmp_path / "server.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST.read_text())
    return path


@pytest.mark.requirement("C6")
async def test_what_the_first_version_stored_is_all_there_after_the_upgrade(old_database: Path) -> None:
    async with server_world(old_database.parent) as world:
        (plans, empty) = (await get(world.http, "/conversations"))["items"]
        assert (plans["name"], plans["archived_at"]) == ("Plans for the garden", None)
        assert (empty["name"], empty["unread"]) == ("Empty", 0)
        said = await history(world.http, plans["id"])
        assert [text_of(message) for message in said[:2]] == [
            "Where do the tomatoes go?",
            "西红柿种在南墙边，下周开会再议。",
        ]
        assert (plans["read_ordinal"], plans["unread"]) == (4, 0)
        (child,) = (await get(world.http, "/conversations", parent_id=plans["id"]))["items"]
        assert child["owner"] == {"kind": "operator", "key": "echo"}
        echo = await world.actor("operator/echo")
        stream = said[2]["id"]
        await emit(echo, stream, set_text(2, "Thought"))
        await end(echo, stream, 3)
        await speak(echo, plans["id"], "after")
        assert (await get(world.http, f"/conversations/{plans['id']}"))["unread"] == 1
        question = await get(world.http, f"/questions/{said[3]['id']}")
        assert question["state"] == "pending"


@pytest.mark.requirement("C6")
async def test_the_file_as_it_was_lies_beside_the_upgraded_one(old_database: Path) -> None:
    async with server_world(old_database.parent):
        pass
    backup = old_database.with_name(f"server.db.before-{HEAD}")
    with closing(sqlite3.connect(backup)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("0001",)]
        assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(4,)]
    with closing(sqlite3.connect(old_database)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
