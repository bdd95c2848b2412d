"""Reading the server's Kubernetes-shaped view: documents and watch lines, nothing decided about them.

`lineloop.control.stores.server` turns them into a resource store (spec/protocol.md §9).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from lineloop.client.transport import Params, Transport


class Apis:
    """`/apis/…` of one server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def document(self, path: str, params: Params | None = None) -> dict[str, Any]:
        """One JSON document [read]. Raises the LoopError of the answer."""
        return (await self._transport.request("GET", path, params=params)).body

    def lines(
        self, path: str, params: Params | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """A watch: one JSON document per line [read]. Raises as `document`; a break is ConnectionLost."""
        return self._transport.lines(path, params=params)
