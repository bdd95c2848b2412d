"""A process that replaces session data and is killed at the site it is given: FOLDER SITE."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.unit.device_apps.apps_world import apps_world

from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite


async def main() -> None:
    folder, site = sys.argv[1:]
    faults = Faults(list(FaultSite), f"{site}:kill")
    async with apps_world(Path(folder), faults=faults) as world:
        await world.session_data.replace(await world.session(), {"n": 1, "text": "x" * 100_000}, 1)


if __name__ == "__main__":
    asyncio.run(main())
