"""Controllers: from "something about this object changed" to one call of a function, until it succeeds.

Level-triggered: a request names the object, never the event. Here is decided which changes wake a
controller, how failures are tried again and how everything ends; what a reconcile does is its author's
business.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from lineloop.control.informer import Change, Informer
from lineloop.control.lease import Lease
from lineloop.control.resources import DEFAULT_NAMESPACE
from lineloop.control.store import ResourceStore
from lineloop.control.workqueue import QueueClosed, WorkQueue
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks

_log = structlog.get_logger(__name__)

MAX_TOLD = 256

Predicate = Callable[[Any, Any], bool]


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """The object to reconcile, by name."""

    kind: str
    name: str
    namespace: str = DEFAULT_NAMESPACE


@record
class Result:
    """What a successful reconcile may ask for: to be called again after a while."""

    requeue_after_seconds: float | None = None


class TerminalError(Exception):
    """Raised by a reconcile that no repetition will help; the object is left alone until it changes."""


Reconcile = Callable[[Request], Awaitable[Result | None]]


@record
class Mapper:
    """Another kind whose changes concern objects of the controller's kind."""

    kind: str
    requests: Callable[[Mapping[str, Any]], Iterable[Request]]


@dataclass(slots=True)
class Counters:
    """What a controller has done so far."""

    reconciles: int = 0
    errors: int = 0
    terminal_errors: int = 0
    requeues: int = 0
    active: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class Controller:
    """`reconcile` for one kind.

    `predicates` are asked `(old or None, new)` about changes of the kind itself; all must agree. A deletion
    is always told. `owns` are kinds whose objects name one of ours in their ownerReferences. `workers`
    reconciles run at a time, never two for one object.
    """

    for_: str
    reconcile: Reconcile
    predicates: Sequence[Predicate] = ()
    owns: Sequence[str] = ()
    mappers: Sequence[Mapper] = ()
    workers: int = 4
    name: str = ""
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        self.name = self.name or self.for_.lower()

    def kinds(self) -> set[str]:
        """Every kind that must be watched for it."""
        return {self.for_, *self.owns, *(mapper.kind for mapper in self.mappers)}

    def requests_for(self, change: Change) -> set[Request]:
        """Whom a change concerns."""
        requests: set[Request] = set()
        kind = change.key.kind
        if kind == self.for_ and self._wanted(change):
            requests.add(Request(kind, change.key.name, change.key.namespace))
        # An owner that was taken off the list hears of that change too, hence both sides are asked.
        for resource in (change.old, change.new):
            if resource is None:
                continue
            if kind in self.owns:
                requests.update(
                    Request(self.for_, owner["name"], change.key.namespace)
                    for owner in resource["metadata"].get("ownerReferences") or ()
                    if owner["kind"] == self.for_
                )
            for mapper in self.mappers:
                if mapper.kind == kind:
                    requests.update(mapper.requests(resource))
        return requests

    def _wanted(self, change: Change) -> bool:
        if change.new is None:
            return True
        return all(predicate(change.old, change.new) for predicate in self.predicates)


class Work:
    """A controller at work: its queue and what its workers do. Made by the Manager."""

    def __init__(self, controller: Controller, queue: WorkQueue[Request], clock: Clock) -> None:
        self.controller = controller
        self.queue = queue
        self._clock = clock
        self._told: set[tuple[str, str]] = set()

    def hear(self, change: Change) -> None:
        for request in self.controller.requests_for(change):
            self.queue.add(request)

    async def run_worker(self) -> None:
        """Reconcile one request after another until the queue is closed."""
        while True:
            try:
                request = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._reconcile(request)
            finally:
                self.queue.done(request)

    async def _reconcile(self, request: Request) -> None:
        counters = self.controller.counters
        counters.reconciles += 1
        counters.active += 1
        started = self._clock.monotonic()
        try:
            result = await self.controller.reconcile(request)
        except TerminalError as error:
            counters.terminal_errors += 1
            self.queue.forget(request)
            _log.error(
                "reconcile_given_up", controller=self.controller.name, request=request, error=str(error)
            )
        except Exception as error:
            counters.errors += 1
            delay = self.queue.add_after_failure(request)
            self._tell(request, error, delay)
        else:
            self.queue.forget(request)
            if result is not None and result.requeue_after_seconds is not None:
                counters.requeues += 1
                self.queue.add_after(request, result.requeue_after_seconds)
        finally:
            counters.active -= 1
            counters.seconds += self._clock.monotonic() - started

    def _tell(self, request: Request, error: Exception, delay: float) -> None:
        """One line per failure, without the error's own words: they may hold what no log should have.

        The whole story of each distinct error is told once, to those who turned debugging on.
        """
        kind, place = type(error).__name__, _place(error)
        _log.warning(
            "reconcile_failed",
            controller=self.controller.name,
            name=request.name,
            error=kind,
            at=place,
            failures=self.queue.failures(request),
            retry_seconds=round(delay, 3),
        )
        if (kind, place) not in self._told and len(self._told) < MAX_TOLD:
            self._told.add((kind, place))
            _log.debug("reconcile_traceback", controller=self.controller.name, exc_info=error)


def _place(error: BaseException) -> str:
    """`file.py:12 in function`: where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return f"{Path(frames[0].filename).name}:{frames[0].lineno} in {frames[0].name}" if frames else ""


class Manager:
    """Runs controllers over `store` in one namespace (None = all).

    With a `lease`, controllers work only while it is held. `await stop()`: running reconciles get
    `grace_seconds` to end, then they are cancelled.
    """

    def __init__(
        self,
        store: ResourceStore,
        clock: Clock,
        *,
        namespace: str | None = None,
        lease: Lease | None = None,
        grace_seconds: float = 30.0,
        inactivity_seconds: float = 60.0,
    ) -> None:
        self.controllers: list[Controller] = []
        self.informers: dict[str, Informer] = {}
        self._store = store
        self._clock = clock
        self._namespace = namespace
        self._lease = lease
        self._grace_seconds = grace_seconds
        self._inactivity_seconds = inactivity_seconds
        self._tasks = Tasks("manager")
        self._round: _Round | None = None
        self._leading = asyncio.Event()
        self._lost = asyncio.Event()

    def add(self, controller: Controller) -> Controller:
        """Before `start`. Raises ValueError for a name that is taken."""
        if any(one.name == controller.name for one in self.controllers):
            raise ValueError(f"there is a controller {controller.name} already")
        self.controllers.append(controller)
        return controller

    async def start(self) -> None:
        """Begin to work, or to wait for the lease."""
        if self._lease is None:
            self._round = self._begin()
            return
        self._lost.set()
        self._tasks.spawn(self._lease.keep(self._gained, self._lease_lost), name="lease")
        self._tasks.spawn(self._lead(), name="lead")

    async def wait_synced(self) -> None:
        """Return when every informer has listed once (with a lease: once leading)."""
        if self._lease is not None:
            await self._leading.wait()
        for informer in list(self.informers.values()):
            await informer.synced.wait()

    def enqueue(self, controller: str, request: Request) -> None:
        """Give a controller work because of a hint from elsewhere; while nothing works it is dropped."""
        for work in self._round.works if self._round else ():
            if work.controller.name == controller:
                work.queue.add(request)

    async def stop(self) -> None:
        """End in order: no new changes, no new work, what runs may finish, then the lease is free."""
        await self._tasks.close()
        await self._end_round(self._grace_seconds)
        if self._lease is not None:
            # Storage that is gone frees the lease by its time.
            with suppress(Exception):
                await self._lease.release()

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Per controller: counters and the depth of its queue."""
        works = {work.controller.name: work for work in (self._round.works if self._round else ())}
        report: dict[str, dict[str, Any]] = {}
        for controller in self.controllers:
            counters, work = controller.counters, works.get(controller.name)
            report[controller.name] = {
                "reconciles": counters.reconciles,
                "errors": counters.errors,
                "terminal_errors": counters.terminal_errors,
                "requeues": counters.requeues,
                "active": counters.active,
                "seconds": counters.seconds,
                "queued": len(work.queue) if work else 0,
                "delayed": work.queue.delayed if work else 0,
            }
        return report

    def _begin(self) -> _Round:
        works = [
            Work(controller, WorkQueue[Request](self._clock, name=controller.name), self._clock)
            for controller in self.controllers
        ]
        self.informers = {}
        for work in works:
            for kind in sorted(work.controller.kinds()):
                informer = self.informers.get(kind) or Informer(
                    self._store,
                    kind,
                    self._clock,
                    namespace=self._namespace,
                    inactivity_seconds=self._inactivity_seconds,
                )
                informer.handlers.append(work.hear)
                self.informers[kind] = informer
        return _Round(list(self.informers.values()), works)

    async def _end_round(self, grace_seconds: float) -> None:
        if self._round is not None:
            ending, self._round = self._round, None
            await ending.end(self._clock, grace_seconds)

    def _gained(self, _: int) -> None:
        self._lost.clear()
        self._leading.set()

    def _lease_lost(self) -> None:
        self._leading.clear()
        self._lost.set()

    async def _lead(self) -> None:
        while True:
            await self._leading.wait()
            self._round = self._begin()
            await self._lost.wait()
            # Another may be leading now: whatever still runs is cut off, its writes are fenced by the token.
            await self._end_round(0.0)


class _Round:
    """One term of leadership: informers and workers that begin and end together."""

    def __init__(self, informers: list[Informer], works: list[Work]) -> None:
        self.works = works
        self._watching = Tasks("informers")
        self._working = Tasks("workers")
        self._workers = [
            self._working.spawn(work.run_worker(), name=f"{work.controller.name}/{number}")
            for work in works
            for number in range(work.controller.workers)
        ]
        for informer in informers:
            self._watching.spawn(informer.run(), name=informer.kind)

    async def end(self, clock: Clock, grace_seconds: float) -> None:
        await self._watching.close()
        for work in self.works:
            await work.queue.close()
        if grace_seconds > 0 and any(not worker.done() for worker in self._workers):
            try:
                waiting = asyncio.gather(*self._workers, return_exceptions=True)
                await with_timeout(clock, grace_seconds, asyncio.shield(waiting))
            except TimeoutError:
                _log.warning("reconciles_cut_off", grace_seconds=grace_seconds)
        await self._working.close()
