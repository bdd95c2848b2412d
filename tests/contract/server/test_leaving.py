"""A client that leaves before its answer is no failure of the server."""

from __future__ import annotations

from typing import Any

import pytest

from lineloop.server.http import edge
from lineloop.testing.server_world import ServerWorld

PATHS = ["/v1/conversations", "/apis/loop.lineloop.dev/v1alpha1/conversations", "/v1/nowhere"]


@pytest.mark.parametrize("path", PATHS)
async def test_an_answer_that_nobody_waits_for_is_no_failed_request(
    world: ServerWorld, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []
    monkeypatch.setattr(edge, "_log", Listening(failed))
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {world.admin_token}".encode())],
    }

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_: Any) -> None:
        raise OSError("the reader has gone")

    await world.server.asgi(scope, receive, send)
    assert failed == []


class Listening:
    """A log that keeps what failed."""

    def __init__(self, failed: list[str]) -> None:
        self._failed = failed

    def exception(self, event: str, **_: Any) -> None:
        self._failed.append(event)
