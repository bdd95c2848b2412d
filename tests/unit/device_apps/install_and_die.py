"""A process that changes the registry and is killed at the site it is given: FOLDER SITE VERB.

VERB: install (the probe), or enable, disable, remove (Pomodoro).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.unit.device_apps.apps_world import PROBE, apps_world

from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite


async def main() -> None:
    folder, site, verb = sys.argv[1:]
    async with apps_world(Path(folder), faults=Faults(list(FaultSite), f"{site}:kill")) as world:
        await world.registry.load()
        registry = world.registry
        begin = {"enable": registry.enable, "disable": registry.disable, "remove": registry.remove}
        operation = await (registry.install(PROBE) if verb == "install" else begin[verb]("pomodoro"))
        await world.registry.wait(operation.operation_id)


if __name__ == "__main__":
    asyncio.run(main())
