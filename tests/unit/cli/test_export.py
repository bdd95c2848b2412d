"""`lineloop export`: a file that is whole or not there."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lineloop.cli.export import export_conversation
from lineloop.client.transport import Response
from lineloop.kit import json
from lineloop.protocol.errors import ErrorCode, NotFound
from lineloop.settings import Settings
from lineloop.testing.scripted import ScriptedTransport


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> ScriptedTransport:
    scripted = ScriptedTransport()

    @asynccontextmanager
    async def reached(_: Settings) -> AsyncGenerator[ScriptedTransport]:
        yield scripted

    monkeypatch.setattr("lineloop.cli.export.admin_transport", reached)
    return scripted


def names_in(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()]


@pytest.mark.requirement("C14")
async def test_the_file_is_whole_and_for_its_owner_only(transport: ScriptedTransport, tmp_path: Path) -> None:
    transport.answers.append(Response(200, json.dumps({"a": 1}).encode()))
    target = tmp_path / "plans.json"
    target.write_text("before")
    assert await export_conversation(Settings(tmp_path), "con_1", "json", target) == 0
    assert json.loads(target.read_bytes()) == {"a": 1}
    assert target.stat().st_mode & 0o777 == 0o600
    assert (transport.asked[0].path, transport.asked[0].params) == (
        "/v1/conversations/con_1/export",
        {"format": "json"},
    )


@pytest.mark.requirement("C14")
async def test_a_refused_export_leaves_what_was_there(transport: ScriptedTransport, tmp_path: Path) -> None:
    transport.answers.append(NotFound("none", code=ErrorCode.CONVERSATION_NOT_FOUND))
    target = tmp_path / "plans.json"
    target.write_text("before")
    with pytest.raises(NotFound):
        await export_conversation(Settings(tmp_path), "con_none", "json", target)
    assert target.read_text() == "before"
    assert names_in(tmp_path) == ["plans.json"]
