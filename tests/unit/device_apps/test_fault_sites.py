"""Every fault site of apps, session data, inbox and containers is reached by its path."""

from __future__ import annotations

from pathlib import Path

from tests.unit.device_apps.apps_world import PROBE, apps_world

from lineloop.device.decide.inbox import InboxMessage, MessageKept, Receiver
from lineloop.kit.faults import Faults
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.fault_sites import FaultSite

GROUPS = ("device.apps.", "device.session_data.", "device.inbox.", "device.container.")


async def test_every_site_is_reached(tmp_path: Path) -> None:
    faults = Faults(list(FaultSite))
    async with apps_world(tmp_path, faults=faults) as world:
        await world.registry.load()
        await world.registry.wait((await world.registry.install(PROBE)).operation_id)
        session = await world.session()
        await world.pool.ensure(world.registry.apps["probe"], session)
        await world.session_data.replace(session, {}, 0)
        message = InboxMessage("probe", "con_1", "m1", "lineup.app.state.patch", {})
        receiver = Receiver(True, ErrorCode.APP_DISABLED, ("lineup.app.*",))
        kept = await world.foundation.write(lambda tx: world.inbox.receive_in(tx, message, receiver))
        assert isinstance(kept, MessageKept)
        await world.inbox.acknowledge(session, kept.inbox_id)
        sites = {str(site) for site in FaultSite if site.startswith(GROUPS)}
        assert sites <= set(faults.reached)
