"""The browsers that may open a device: listed with their last use, and sent away by taking their key."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.shell.shell_world import shell_world

from lineloop.device.host.web.browsers import browser_named_in


@pytest.mark.requirement("H18")
async def test_h18_a_key_that_is_taken_away_ends_its_pages_at_once_and_lets_nobody_in(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        mine = await world.page(tab="mine")
        await world.clock.advance(60)
        lost = await world.page(tab="lost")
        lost_twin = await world.page(key=lost.key, tab="twin")
        listed = (await mine.ask("keys.list"))["keys"]
        assert [(one["here"], one["open"]) for one in listed] == [(False, True), (True, True)]
        assert listed[0]["used_at"] > listed[1]["used_at"]
        assert mine.key not in str(listed)
        await mine.ask("keys.revoke", name=listed[0]["name"])
        assert {await lost.close_code(), await lost_twin.close_code()} == {4401}
        assert await mine.refused("keys.revoke", name=listed[0]["name"]) == "not_found"
        with pytest.raises(AssertionError):
            await world.page(key=lost.key)
        # Whoever takes their own key is sent away too.
        (own,) = (await mine.ask("keys.list"))["keys"]
        assert await mine.refused("keys.revoke", name=own["name"]) == "closed_4401"
        assert await mine.close_code() == 4401


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) Chrome/131.0 Safari/537.36", "Chrome · Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/131.0 Safari/537.36 Edg/131.0", "Edge · Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 14) Version/17.4 Safari/605", "Safari · macOS"),
        ("Mozilla/5.0 (Android 14; Mobile; rv:130.0) Firefox/130.0", "Firefox · Android"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) CriOS/126 Safari/604.1", "Chrome · iPhone"),
        ("curl/8", ""),
    ],
)
def test_a_browser_is_called_as_people_call_it(user_agent: str, name: str) -> None:
    assert browser_named_in(user_agent) == name
