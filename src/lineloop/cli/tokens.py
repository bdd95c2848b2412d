"""`lineloop token`: credentials for programs, made and ended by whoever administers the server."""

from __future__ import annotations

from typing import Any

from lineloop.cli.chat.harmless import clean
from lineloop.cli.failures import Exit
from lineloop.cli.reach import admin_transport
from lineloop.kit.json import dumps
from lineloop.protocol.actors import Actor
from lineloop.protocol.paths import segment
from lineloop.settings import Settings


async def create_token(settings: Settings, named: Actor, *, as_json: bool) -> int:
    """Prints the token, the only time it is shown. Raises LoopError, CommandFailed."""
    async with admin_transport(settings) as transport:
        made = (await transport.request("POST", "/v1/tokens", json={"actor": named.to_wire()})).body
    print(dumps(made) if as_json else made["token"])
    return Exit.DONE


async def list_tokens(settings: Settings, *, as_json: bool) -> int:
    """Prints ids and actors; secrets are not stored, so they cannot be shown. Raises LoopError,
    CommandFailed.
    """
    items: list[dict[str, Any]] = []
    after: str | None = None
    async with admin_transport(settings) as transport:
        while True:
            page = (await transport.request("GET", "/v1/tokens", params={"after": after})).body
            items += page["items"]
            after = page.get("next")
            if not after:
                break
    if as_json:
        print(dumps({"items": items}))
    else:
        for item in items:
            ended = "  revoked" if item.get("revoked_at") else ""
            who = Actor.from_wire(item["actor"]) if item["actor"] is not None else "(names nobody)"
            print(clean(f"{item['id']}  {who}{ended}"))
    return Exit.DONE


async def revoke_token(settings: Settings, token_id: str) -> int:
    """Ends a token at once. Raises NotFound (exit 3)."""
    async with admin_transport(settings) as transport:
        await transport.request("DELETE", f"/v1/tokens/{segment(token_id)}")
    return Exit.DONE
