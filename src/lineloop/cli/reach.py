"""How a command reaches a server: the one it is told, or the one that runs on its data directory.

Decides which address and which credential count, in this order: options and environment, then the ready
file of the data directory.
"""

from __future__ import annotations

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.running import Ready, find_running
from lineloop.client.http import HttpTransport
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
