"""`lineloop run`: operators of a file or module, joined to a server, until a signal.

Decides where the token comes from: an option or the environment, else the running system of the data
directory makes one for the operator that the file names.
"""

from __future__ import annotations

import asyncio
import signal

from lineloop.cli.credentials import Credentials
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.following import FollowingTransport
from lineloop.cli.lifetime import planned_faults
from lineloop.cli.logs import set_up_logs
from lineloop.cli.operator_file import load
from lineloop.cli.reach import own_server
from lineloop.client.http import HttpTransport
from lineloop.client.loop import Loop
from lineloop.client.transport import Transport
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids
from lineloop.operators.worker import OperatorWorker
from lineloop.protocol.actors import Actor
from lineloop.settings import Settings


async def run_operators(settings: Settings, reference: str, *, kubernetes: bool, debug: bool) -> int:
    """Raises LoopError, CommandFailed."""
    if kubernetes:
        raise CommandFailed("resources in a cluster are not built yet; run without --kubernetes", Exit.USAGE)
    set_up_logs(settings.log_format, settings.log_level)
    operator = load(reference, debug=debug)
    transport = await _transport(settings, operator.actor)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    faults = planned_faults(settings)
    async with Loop(transport, faults=faults) as loop:
        await loop.check_token()
        async with OperatorWorker(operator, loop):
            await stop.wait()
    return Exit.DONE


async def _transport(settings: Settings, actor: Actor) -> Transport:
    if settings.server and settings.token:
        return HttpTransport(settings.server, settings.token)
    ready = own_server(settings, f"a token for {actor} is needed: --token or LINELOOP_TOKEN")
    admin = HttpTransport(ready.server_url or "", ready.admin_token)
    try:
        token = await Credentials(settings.data_dir, Ids(SystemClock())).token_for(actor, admin)
    finally:
        await admin.close()
    return FollowingTransport(settings.data_dir, ready, lambda _: token)
