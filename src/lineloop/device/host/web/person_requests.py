"""What a page asks about the person's own things: their conversations as files, which browsers may come in.

Decides how both are told to a page. Who may ask at all, the visit has decided.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lineloop.device.host.web.downloads import Document
from lineloop.device.host.web.pages import Page
from lineloop.kit.clock import rfc3339
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError, NotFound

if TYPE_CHECKING:
    from lineloop.device.host.web.host import WebHost

EXPORTS = {
    "json": ("json", "application/json"),
    "markdown": ("md", "text/markdown; charset=utf-8"),
}


class PersonRequests:
    """The requests of one visit, by frame type; `page` is the page that was let in."""

    def __init__(self, host: WebHost, page: Callable[[], Page]) -> None:
        self._host = host
        self._page = page

    @property
    def requests(self) -> dict[str, Callable[[dict[str, Any]], Awaitable[Any]]]:
        return {
            "export.open": self._export_open,
            "keys.list": self._keys_list,
            "keys.revoke": self._keys_revoke,
        }

    # ── documents ───────────────────────────────────────────────────────────────────────────────────────────

    async def _export_open(self, payload: dict[str, Any]) -> Any:
        """An address at which the browser fetches the whole conversation, once."""
        export, conversation_id = self._host.stage.export, payload["conversation_id"]
        if export is None:
            raise LoopError("this device has no conversations of a person", code=ErrorCode.UNSUPPORTED)
        ending, media_type = EXPORTS[payload["format"]]
        name = f"conversation-{conversation_id[-8:]}.{ending}"
        if not name.isascii() or not conversation_id.replace("_", "").replace("-", "").isalnum():
            raise NotFound("there is no such conversation", code=ErrorCode.CONVERSATION_NOT_FOUND)
        document = Document(name, media_type, lambda: export(conversation_id, payload["format"]))
        return {"path": self._host.downloads.offer(document)}

    # ── keys of browsers ────────────────────────────────────────────────────────────────────────────────────

    async def _keys_list(self, _: dict[str, Any]) -> Any:
        keys = await self._host.access.keys()
        return {
            "keys": [
                {
                    "name": one.name,
                    "browser": one.browser,
                    "created_at": rfc3339(one.created_at),
                    "used_at": rfc3339(one.used_at),
                    "here": one.name == self._page().key_name,
                    "open": any(page.key_name == one.name for page in self._host.pages.values()),
                }
                for one in keys
            ]
        }

    async def _keys_revoke(self, payload: dict[str, Any]) -> Any:
        await self._host.revoke_key(payload["name"])
        return {}
