"""How a command reaches a server: the one it is told, or the one that runs on its data directory.

Decides which address and which credential count, in this order: options and environment, then the ready
file of the data directory. The credentials of a data directory go to its own system and to nobody else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.following import FollowingTransport
from lineloop.cli.running import Ready, find_running
from lineloop.client.http import HttpTransport
from lineloop.client.transport import Transport
from lineloop.settings import Settings

START_HINT = "start one with: lineloop up"
TOKEN_HINT = "give one with --token or LINELOOP_TOKEN"  # noqa: S105 (a sentence)


def person_transport(settings: Settings) -> Transport:
    """A transport for talking as the person.

    Raises CommandFailed when there is nothing to talk to, or no credential for the server that is named.
    """
    if settings.server and settings.token:
        return HttpTransport(settings.server, settings.token)
    ready = own_server(settings, f"a token for {settings.server} is needed", TOKEN_HINT)
    token = settings.token
    return FollowingTransport(settings.data_dir, ready, lambda found: token or found.admin_token)


def own_server(settings: Settings, otherwise: str, hint: str = "") -> Ready:
    """The running system of the data directory, whether no server is named or just this one.

    Raises CommandFailed: `otherwise` (2) when another server is named, 75 when none is and none runs.
    """
    if not settings.server:
        return running_server(settings)
    ready = find_running(settings.data_dir)
    if ready is None or ready.server_url is None or not _same_address(settings.server, ready.server_url):
        raise CommandFailed(otherwise, Exit.USAGE, hint=hint)
    return ready


def running_server(settings: Settings) -> Ready:
    """The running server of the data directory. Raises CommandFailed (75)."""
    ready = find_running(settings.data_dir)
    if ready is None or ready.server_url is None:
        raise CommandFailed(f"no server runs on {settings.data_dir}", Exit.TEMPORARY, hint=START_HINT)
    return ready


def _same_address(named: str, running: str) -> bool:
    try:
        return _address(named) == _address(running)
    except ValueError:
        return False


def _address(url: str) -> tuple[str, str, int | None, str]:
    parts = urlsplit(url.rstrip("/"))
    return parts.scheme, parts.netloc.lower(), parts.port, parts.path


@asynccontextmanager
async def admin_transport(settings: Settings) -> AsyncGenerator[Transport]:
    """A transport with every right: to the named server, the running one, or one made for this command alone.

    Raises CommandFailed, LoopError.
    """
    server, token = settings.server, settings.token
    if not (server and token):
        ready = find_running(settings.data_dir)
        if server:
            ready = own_server(settings, "--admin-token is needed with --server")
        server, token = (ready.server_url, ready.admin_token) if ready else (None, None)
    if server:
        transport = HttpTransport(server, token)
        try:
            yield transport
        finally:
            await transport.close()
        return
    from lineloop.cli.data_files import remembered_database
    from lineloop.cli.lifetime import Stop
    from lineloop.cli.logs import set_up_quiet_logs
    from lineloop.cli.models import LocalModels
    from lineloop.cli.serve import admin_of, database_place, started_server
    from lineloop.cli.surroundings import Surroundings

    set_up_quiet_logs(settings.log_format)
    place = database_place(settings.database) or remembered_database(settings.data_dir)
    around = Surroundings.of(settings)
    async with started_server(around, LocalModels(settings, around.clock), Stop(), place) as server:
        inside = admin_of(server, around)
        try:
            yield inside
        finally:
            await inside.close()
