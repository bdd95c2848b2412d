"""Routes for whoever runs the server: alive, ready, counted."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.clock import with_timeout
from lineloop.protocol.errors import StorageUnavailable
from lineloop.server.decide.access import Verb
from lineloop.server.http.documents import document
from lineloop.server.http.lists import json_response
from lineloop.server.http.metrics import CONTENT_TYPE
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.store import meta
from lineloop.server.store.figures import figures
from lineloop.server.wakeup.relay import Relay

READY_SECONDS = 5.0


def relay_state(relay: Relay | None) -> dict[str, object] | None:
    """None: this server has no relay. One that is not connected costs latency only, so ready it is."""
    return None if relay is None else {"name": relay.name, "connected": relay.figures.connected}


def health_routes(services: Services) -> Routes:
    router = Routes(tags=["health"])

    @router.get("/healthz", openapi_extra=document(None, public=True))
    async def healthz(_: Request) -> Response:
        """The process answers."""
        return json_response({"status": "alive"})

    @router.get("/readyz", openapi_extra=document(None, public=True))
    async def readyz(_: Request) -> Response:
        """The server can commit: it just did."""
        if not services.ready:
            raise StorageUnavailable("the server is starting or stopping")
        now = json.dumps(services.clock.now_ms())
        try:
            await with_timeout(
                services.clock,
                READY_SECONDS,
                services.commits.write(lambda tx: meta.put(tx, "ready_at", now)),
            )
        except TimeoutError:
            raise StorageUnavailable(f"nothing was committed within {READY_SECONDS} s") from None
        return json_response(
            {"status": "ready", "epoch": services.epoch, "relay": relay_state(services.relay)}
        )

    @router.get("/metrics", openapi_extra=document(None, media_types=("text/plain",)))
    async def metrics(request: Request) -> Response:
        """Numbers in the Prometheus text format, for whoever has a credential that may read."""
        await services.grant(request, Verb.READ)
        services.metrics.opened(await services.commits.read(figures))
        services.metrics.commits.set(services.commits.db.commits)
        services.metrics.committed(services.commits.db.measures)
        services.metrics.refused(services.refusals.counted)
        if services.relay is not None:
            services.metrics.relayed(services.relay.figures)
        return Response(services.metrics.text(), media_type=CONTENT_TYPE)

    return router
