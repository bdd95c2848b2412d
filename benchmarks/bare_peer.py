"""The yardstick of B8: uvicorn and Starlette with one route. `python bare_peer.py PORT`."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def healthz(_: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


if __name__ == "__main__":
    app = Starlette(routes=[Route("/healthz", healthz)])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
