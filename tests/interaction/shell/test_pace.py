"""How much a page may send, and that one which sends more harms nobody and is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interaction.shell.shell_world import shell_world

from lineloop.device.host.web.pace import CHANGES_AT_ONCE, REFUSED_AT_ONCE, TOLD_AT_ONCE
from lineloop.device.host.web.visit import FLOOD, MAX_KEY_BYTES
from lineloop.testing.waiting import until


@pytest.mark.requirement("H19")
async def test_h19_changes_that_come_too_fast_are_refused_with_a_code_and_the_page_stays(
    tmp_path: Path,
) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        for change in range(100):
            await page.look(visible=change % 2 == 0)
        await until(lambda: any(event["type"] == "refused" for event in page.events))
        assert await page.refused("models.find") == "unsupported"
        refused = [event["payload"] for event in page.events if event["type"] == "refused"]
        assert 1 <= len(refused) <= TOLD_AT_ONCE
        assert refused[0]["type"] == "page"
        assert refused[0]["code"] == "rate_limited"
        noted = await world.device.rows("SELECT event FROM audit WHERE event = 'host_hidden'")
        assert len(noted) <= CHANGES_AT_ONCE / 2
        # What holds is told again after the time that was said, and is taken then.
        await world.clock.advance(refused[0]["retry_ms"] / 1000)
        await page.look(visible=False, focused=False)
        (seen,) = world.host.pages.values()
        await until(lambda: not seen.visible)


@pytest.mark.requirement("H19")
async def test_h19_requests_that_come_too_fast_are_answered_rate_limited(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        for number in range(450):
            await page.send(f'{{"v":1,"id":"q{number}","type":"models.find","payload":{{}}}}')
        await until(lambda: "q449" in page.answers)
        assert page.answers["q449"]["error"]["code"] == "rate_limited"
        await world.clock.advance(1)
        assert await page.refused("models.find") == "unsupported"


@pytest.mark.requirement("H19")
async def test_h19_a_page_that_goes_on_is_sent_away_and_others_stay(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        other = await world.page(tab="other")
        page = await world.page()
        for _ in range(int(CHANGES_AT_ONCE + REFUSED_AT_ONCE) + 5):
            await page.look()
        assert await page.close_code() == FLOOD
        assert await other.refused("models.find") == "unsupported"
        await world.page(key=page.key)


async def test_a_key_that_is_none_by_its_size_is_refused_with_a_code(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        long = "钥" * (MAX_KEY_BYTES // 3 + 1)
        assert await page.refused("models.choose", target="openai:x", key=long) == "limit_exceeded"
        assert await page.refused("models.choose", target="openai:x", key="k") == "unsupported"
