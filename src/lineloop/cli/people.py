"""`lineloop user` and `lineloop refusals`: who is let in to a server, and who was not."""

from __future__ import annotations

from typing import Any

from lineloop.cli.chat.harmless import clean
from lineloop.cli.failures import Exit
from lineloop.cli.reach import admin_transport
from lineloop.client.transport import Transport
from lineloop.kit.json import dumps
from lineloop.protocol.paths import segment
from lineloop.settings import Settings

PAGE = 500


async def create_person(settings: Settings, key: str | None, *, as_json: bool) -> int:
    """Prints the person and the code that lets them in once, the only time it is shown. Raises LoopError,
    CommandFailed.
    """
    body = {} if key is None else {"key": key}
    async with admin_transport(settings) as transport:
        made = (await transport.request("POST", "/v1/users", json=body)).body
    print(dumps(made) if as_json else clean(f"{made['key']}  {made['code']}"))
    return Exit.DONE


async def list_people(settings: Settings, *, as_json: bool) -> int:
    """Prints who may come in. Raises LoopError, CommandFailed."""
    async with admin_transport(settings) as transport:
        people = await _all(transport, "/v1/users")
    if as_json:
        print(dumps({"items": people}))
    for one in () if as_json else people:
        invited = f"invited until {one['invited_until']}" if one["invited_until"] else ""
        state = "signed in" if one["signed_in"] else invited or "no browser"
        print(clean(f"{one['key']}  {state}"))
    return Exit.DONE


async def remove_person(settings: Settings, key: str) -> int:
    """Ends every way in of a person at once. Raises NotFound (exit 3)."""
    async with admin_transport(settings) as transport:
        await transport.request("DELETE", f"/v1/users/{segment(key)}")
    return Exit.DONE


async def list_refusals(settings: Settings, limit: int, *, as_json: bool) -> int:
    """Prints what was refused to whom, the newest last. Raises LoopError, CommandFailed."""
    async with admin_transport(settings) as transport:
        found = await _all(transport, "/v1/refusals", limit)
    if as_json:
        print(dumps({"items": found}))
    for one in () if as_json else reversed(found):
        who = " ".join(filter(None, (one["actor"], one["credential"], one["peer"]))) or "somebody"
        print(clean(f"{one['last_at']}  {one['count']} ×  {one['code']}  {one['action']}  {who}"))
    return Exit.DONE


async def _all(transport: Transport, path: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Every item of a list, or the first `limit`."""
    items: list[dict[str, Any]] = []
    after: str | None = None
    while limit is None or len(items) < limit:
        size = PAGE if limit is None else min(PAGE, limit - len(items))
        page = (await transport.request("GET", path, params={"after": after, "limit": size})).body
        items += page["items"]
        after = page["next"]
        if after is None:
            break
    return items
