"""A server in a process of its own, on a socket, to be killed. Run as a script by the tests."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from lineloop.cli.connections import HttpConnection, LinkConnection
from lineloop.kit.faults import Faults
from lineloop.protocol.fault_sites import FaultSite
from lineloop.server.app import Server
from lineloop.server.settings import ServerSettings


async def main(database: str, token: str, plan: str, ws: str = "") -> None:
    faults = Faults(FaultSite, plan)
    server = Server(ServerSettings(Path(database), admin_token=token), faults=faults)
    await server.start()
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 (the test reads the port here)
    ours: dict[str, Any] = {} if ws == "plain" else {"http": HttpConnection, "ws": LinkConnection}
    config = uvicorn.Config(server.asgi, log_level="critical", access_log=False, lifespan="off", **ours)
    await uvicorn.Server(config).serve(sockets=[listener])
    await server.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
