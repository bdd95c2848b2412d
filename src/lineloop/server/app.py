"""The server put together: database, jobs, routes, links, upkeep. The only place that knows all of them.

`Server` is used by `lineloop serve` and `up`, by tests and by in-process clients: `asgi` answers HTTP,
`open_link` gives a link session without a socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.applications import Starlette

from lineloop.control.stores.sql import SqlStore
from lineloop.harness.adapters.demo import DemoAdapter
from lineloop.harness.adapters.port import Adapter
from lineloop.harness.runner import Runner
from lineloop.kit.clock import Clock, SharedClock, SystemClock
from lineloop.kit.database import Database, Tx
from lineloop.kit.engines import ensure_schema, is_postgres, open_database
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LoopError
from lineloop.server.blobs import BlobStore
from lineloop.server.commit import CommitContext, Commits
from lineloop.server.commit_runs import RunCommits
from lineloop.server.decide.access import LOCAL_USER, ORDINARY_VERBS, Grant
from lineloop.server.http.blobs import blob_routes
from lineloop.server.http.conversations import conversation_routes
from lineloop.server.http.document_route import document_routes
from lineloop.server.http.edge import AsgiApp, Edge
from lineloop.server.http.health import health_routes
from lineloop.server.http.hot import HotRoutes
from lineloop.server.http.identities import identity_routes
from lineloop.server.http.identity import CookieIdentity, Identity, TrustedHeaderIdentity
from lineloop.server.http.inbox import inbox_routes
from lineloop.server.http.link import Links, LinkSession
from lineloop.server.http.link_socket import link_routes
from lineloop.server.http.messages import message_routes
from lineloop.server.http.metrics import Metrics
from lineloop.server.http.participants import participant_routes
from lineloop.server.http.people import people_routes
from lineloop.server.http.problems import install_handlers
from lineloop.server.http.questions import question_routes
from lineloop.server.http.rates import RateLimits
from lineloop.server.http.refusal_routes import refusal_routes
from lineloop.server.http.refusals import Refusals
from lineloop.server.http.resources import resource_routes
from lineloop.server.http.runs import run_routes
from lineloop.server.http.searching import search_routes
from lineloop.server.http.services import Services
from lineloop.server.http.streamed import OpenStreams
from lineloop.server.migrations import HEAD
from lineloop.server.settings import ServerSettings
from lineloop.server.store import identities, meta
from lineloop.server.upkeep.caring import Care, blob_store
from lineloop.server.upkeep.deadlines import QuestionTimer, SilentStreams
from lineloop.server.upkeep.folding import Folding
from lineloop.server.upkeep.notifier import Notifier
from lineloop.server.upkeep.replicas import Replicas
from lineloop.server.upkeep.revocations import Revocations
from lineloop.server.upkeep.timekeeping import Timekeeping
from lineloop.server.wakeup.bus import Bus, Stopping
from lineloop.server.wakeup.carriers import postgres_carrier, redis_carrier
from lineloop.server.wakeup.relay import Carrier

EPOCH = "server_epoch"
DRAIN_SECONDS = 5.0


class Server:
    """One server. `await start()`, then use `asgi`, `open_link`, `commits`; `await close()` at the end.

    `on_fatal` is called when the database cannot be trusted any more: the process must stop.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        faults: Faults | None = None,
        on_fatal: Callable[[BaseException], None] | None = None,
        adapters: Sequence[Adapter] | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or (SharedClock() if is_postgres(settings.database) else SystemClock())
        self.ids = ids or Ids(self.clock)
        self.faults = faults or Faults.none()
        self._on_fatal = on_fatal
        self._adapters = {adapter.name: adapter for adapter in adapters or (DemoAdapter(),)}
        self.admin_token = settings.admin_token or f"lla_{self.ids.secret()}"
        self.bus = Bus()
        self.metrics = Metrics()
        self.refusals = Refusals(self.clock)
        self._tasks = Tasks("server")
        self._started = False
        self.db: Database
        self.commits: Commits
        self.runs: RunCommits
        self.runner: Runner
        self.resources: SqlStore
        self.services: Services
        self.blobs: BlobStore
        self.care: Care
        self.replicas: Replicas
        self.asgi: AsgiApp

    async def start(self) -> None:
        """Opens (creating or upgrading) the database and starts the upkeep.

        Raises the errors of kit.engines.
        """
        settings = self.settings
        await asyncio.to_thread(
            ensure_schema, settings.database, package="lineloop.server.migrations", head=HEAD
        )
        self.db = await open_database(
            settings.database, clock=self.clock, faults=self.faults, on_fatal=self._on_fatal
        )
        ctx = CommitContext(clock=self.clock, ids=self.ids, bus=self.bus, limits=settings.limits)
        self.commits = Commits(self.db, ctx)
        self.runs = RunCommits(self.commits, self._adapters, slots=settings.run_slots)
        self.runner = Runner(self.runs, self._adapters, self.clock, self.ids, slots=settings.run_slots)
        self.resources = SqlStore(self.db, self.clock, self.ids)
        self.blobs = blob_store(
            settings, self.commits, self.clock, self.faults, shared=is_postgres(settings.database)
        )
        if isinstance(self.clock, SharedClock):
            timekeeping = Timekeeping(self.commits, self.clock)
            await timekeeping.align()
            self._tasks.spawn(timekeeping.run(), name="timekeeping")
        epoch = await self.commits.write(self._introduce)
        self.services = self._services(epoch)
        self.asgi = Edge(
            self._application(), self.services.hot, settings, self.ids, self.metrics, self.refusals
        )
        self._keep_up()
        await self.runs.forget_leases()
        await self.runner.start()
        self._started = True
        self.services.ready = True

    def _introduce(self, tx: Tx) -> str:
        """The database's epoch, and the local person."""
        identities.insert_user(tx, LOCAL_USER, cookie=None, secret=None, now=self.clock.now_ms())
        return meta.keep(tx, EPOCH, self.ids.make("epo"))

    def _services(self, epoch: str) -> Services:
        settings = self.settings
        human = (
            TrustedHeaderIdentity(self.commits, settings.trusted_user_header)
            if settings.trusted_user_header
            else CookieIdentity(self.commits)
        )
        rates = RateLimits(settings.rates, self.clock)
        links = Links(
            self.commits,
            self.bus,
            self.clock,
            self.ids,
            heartbeat_seconds=settings.heartbeat_seconds,
            frame_bytes=settings.frame_bytes,
            body_bytes=settings.body_bytes,
            rates=rates,
        )
        links.epoch = epoch
        links.refused = self.refusals.note
        return Services(
            settings=settings,
            commits=self.commits,
            identity=Identity(self.commits, human, self.admin_token, rates),
            links=links,
            bus=self.bus,
            clock=self.clock,
            ids=self.ids,
            tasks=self._tasks,
            metrics=self.metrics,
            epoch=epoch,
            hot=HotRoutes(),
            streams=OpenStreams(),
            refusals=self.refusals,
        )

    def _application(self) -> Starlette:
        services = self.services
        # Hot routes first: the router looks at them in this order.
        every = [
            search_routes(services),
            message_routes(services),
            inbox_routes(services),
            question_routes(services),
            conversation_routes(services),
            participant_routes(services),
            blob_routes(services, self.blobs),
            identity_routes(services),
            people_routes(services),
            refusal_routes(services),
            health_routes(services),
            link_routes(services),
            run_routes(services, self.runs),
            resource_routes(services, self.resources),
        ]
        every.append(document_routes([route for routes in every for route in routes.declared]))
        app = Starlette(routes=[route for routes in every for route in routes.served])
        # A path means one thing: with a slash behind it is another, which there is not.
        app.router.redirect_slashes = False
        install_handlers(app, self.refusals.of_request)
        return app

    def _keep_up(self) -> None:
        settings, commits = self.settings, self.commits
        folding = Folding(commits, self.clock)
        commits.ctx.fold_due = folding.due
        timer = QuestionTimer(commits, self.clock, self.bus, settings.sweep_seconds)
        notifier = Notifier(
            commits, self.resources, self.clock, self.bus, coalesce_seconds=settings.notify_seconds
        )
        self.care = Care(settings, commits, self.blobs, self.clock, self.bus)
        self.care.start(self._tasks)
        self._tasks.spawn(folding.run(), name="folding")
        self._tasks.spawn(folding.sweep(), name="folding_sweep")
        self._tasks.spawn(self.refusals.run(commits), name="refusals")
        self._tasks.spawn(timer.run(), name="questions")
        self._tasks.spawn(SilentStreams(commits, self.clock).run(), name="silent_streams")
        self._tasks.spawn(notifier.run(), name="notifier")
        self._tasks.spawn(notifier.sweep(settings.sweep_seconds), name="notifier_sweep")
        self._tasks.spawn(self._sweep_links(), name="links_sweep")
        self.replicas = Replicas(
            commits,
            self.clock,
            self.bus,
            carrier=self._carrier(),
            origin=self.ids.make("rep"),
            sweep_seconds=settings.sweep_seconds,
        )
        self.services.relay = self.replicas.relay
        if is_postgres(settings.database):
            revocations = Revocations(
                commits,
                self.clock,
                self.services.end_of_token,
                self.services.end_of_person,
                settings.sweep_seconds,
            )
            self._tasks.spawn(revocations.run(), name="revocations")
        self.replicas.start(self._tasks)

    def _carrier(self) -> Carrier | None:
        """What hints to other replicas travel on."""
        if self.settings.redis_url is not None:
            return redis_carrier(self.settings.redis_url, self.services.epoch)
        if is_postgres(self.settings.database):
            return postgres_carrier(str(self.settings.database), self.services.epoch)
        return None

    async def _sweep_links(self) -> None:
        while True:
            await self.clock.sleep(self.settings.sweep_seconds)
            try:
                await self.services.links.sweep()
            except LoopError:
                continue

    def local_token(self, actor: Actor, *, owner_user: str = LOCAL_USER) -> str:
        """A token for a part that lives in this process; never stored, it ends with the process."""
        secret = f"lll_{self.ids.secret()}"
        self.services.identity.add_standing(secret, Grant(actor, ORDINARY_VERBS, owner_user))
        return secret

    async def open_link(self, token: str) -> LinkSession:
        """A link session in this process. Raises Unauthorized, Forbidden, InvalidRequest, ConnectionLost."""
        return await self.services.links.open(await self.services.identity.of_token(token))

    def leave(self) -> None:
        """From now on the server is not ready: viewers and waits are told to come again, elsewhere if they
        can. Requests and links go on. Repeating is harmless.
        """
        if self._started:
            self.services.ready = False
            self.bus.tell(Stopping())

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Tells links and viewers to go, and waits a while for the links to finish what they have."""
        if not self._started:
            return
        self.leave()
        self.services.links.drain(self.settings.drain_retry_ms)
        until = self.clock.monotonic() + seconds
        while len(self.services.links) and self.clock.monotonic() < until:
            await self.clock.sleep(0.02)

    async def close(self) -> None:
        """Ends everything; what was accepted is stored. Repeating is harmless."""
        if not self._started:
            return
        self.leave()
        self._started = False
        self.services.links.close()
        await self.runner.stop()
        await self._tasks.close()
        await self.db.close()
