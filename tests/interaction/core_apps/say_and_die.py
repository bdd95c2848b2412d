"""A system in which the person says something and which is killed at the site it is given: FOLDER SITE."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.interaction.core_apps.page import Page

from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing.full_world import full_world
from lineloop.testing.waiting import until

KEY = "say-1"
TEXT = "once, please"


async def main() -> None:
    folder, site = Path(sys.argv[1]), sys.argv[2]
    faults = Faults(list(FaultSite), f"{site}:kill")
    async with full_world(folder, person=True, faults=faults) as world:
        (folder / "conversation").write_text(world.conversation_id)
        page = await Page(world.runtime.core_sessions).hello()
        await page.act("say", conversation_id=world.conversation_id, key=KEY, text=TEXT)
        await until(lambda: False)


if __name__ == "__main__":
    asyncio.run(main())
