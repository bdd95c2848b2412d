"""How a command reaches a server: the one it is told, or the one that runs on its data directory.

Decides which address and which credential count, in this order: options and environment, then the ready
file of the data directory.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.running import Ready, find_running
from lineloop.client.http import HttpTransport
from lineloop.client.transport import Transport
from lineloop.settings import Settings

START_HINT = "start one with: lineloop up"


def person_transport(settings: Settings) -> HttpTransport:
    """A transport for talking as the person. Raises CommandFailed when there is nothing to talk to."""
    if settings.server and settings.token:
        return HttpTransport(settings.server, settings.token)
    ready = running_server(settings)
    server = settings.server or ready.server_url
    return HttpTransport(server or "", settings.token or ready.admin_token)


def running_server(settings: Settings) -> Ready:
    """The running server of the data directory. Raises CommandFailed (75)."""
    ready = find_running(settings.data_dir)
    if ready is None or ready.server_url is None:
        raise CommandFailed(f"no server runs on {settings.data_dir}", Exit.TEMPORARY, hint=START_HINT)
    return ready


@asynccontextmanager
async def admin_transport(settings: Settings) -> AsyncGenerator[Transport]:
    """A transport with every right: to the named server, the running one, or one made for this command alone.

    Raises CommandFailed, LoopError.
    """
    ready = None if settings.server else find_running(settings.data_dir)
    if settings.server and not settings.token:
        raise CommandFailed("--admin-token is needed with --server", Exit.USAGE)
    server = settings.server or (ready.server_url if ready else None)
    if server:
        transport = HttpTransport(
            server, settings.token if settings.server or not ready else ready.admin_token
        )
        try:
            yield transport
        finally:
            await transport.close()
        return
    from lineloop.cli.data_files import remembered_database
    from lineloop.cli.lifetime import Stop
    from lineloop.cli.logs import set_up_quiet_logs
    from lineloop.cli.models import LocalModels
    from lineloop.cli.serve import admin_of, started_server
    from lineloop.cli.surroundings import Surroundings

    set_up_quiet_logs(settings.log_format)
    around = Surroundings.of(settings)
    async with started_server(
        around, LocalModels(settings, around.clock), Stop(), remembered_database(settings.data_dir)
    ) as server:
        inside = admin_of(server, around)
        try:
            yield inside
        finally:
            await inside.close()
