"""The commit room: every decision of the core becomes facts here (design: runtime 3.2).

Decides the order: the job loads by key, decides, writes, all in one transaction; only after the commit do the
effects reach the reconcilers, in commit order. If the commit fails, nothing has changed anywhere. What is
decided is the business of decide/, what an effect does that of reconcile/.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from lineloop.device.commit.catalogue import Catalogue
from lineloop.device.commit_inbox import AppInbox
from lineloop.device.decide.envelopes import Moment
from lineloop.device.decide.facts import (
    ActivationEnded,
    CallAccepted,
    CallChanged,
    Effect,
    Fact,
    OperationEnded,
    OperationStarted,
    SendSoon,
)
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.projection import projections
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Limits, Operation
from lineloop.device.foundation import Foundation
from lineloop.device.store import outbox
from lineloop.device.store.write import write_facts
from lineloop.kit.database import DatabaseError, Tx
from lineloop.protocol.actors import RUNTIME, Actor

T = TypeVar("T")

Decide = Callable[[Tx, Plan], T]
CallWatcher = Callable[[frozenset[tuple[str, str]]], None]

SITE_ACCEPT = "device.accept"
SITE_RESULT = "device.result"
SITE_OPERATION_START = "device.operation_start"
SITE_ACTIVATION = "device.activation"


@dataclass(slots=True)
class Pending:
    """Small writes that travel with the next commit, because losing them costs a repeat and nothing else."""

    settled: list[outbox.Settled] = field(default_factory=list[outbox.Settled])
    cursors: dict[str, int] = field(default_factory=dict[str, int])

    def __bool__(self) -> bool:
        return bool(self.settled or self.cursors)


class Room:
    """What all commit jobs of one device share, and the way they run.

    `on_effects` gets the effects of each commit, on the event loop, in commit order. `stopwatch` holds for
    each running operation the monotonic second at which it began.
    """

    def __init__(
        self,
        foundation: Foundation,
        catalogue: Catalogue,
        *,
        person: Actor | None,
        limits: Limits,
        on_effects: Callable[[list[Effect]], None],
        inbox: AppInbox | None = None,
    ) -> None:
        self.foundation = foundation
        self.runtime_id = foundation.runtime_id
        self.device = Actor(RUNTIME, foundation.runtime_id)
        self.catalogue = catalogue
        self.person = person
        self.limits = limits
        self.inbox = inbox
        self.schemas = Schemas()
        self.stopwatch: dict[str, float] = {}
        self.refused: Counter[str] = Counter()
        self.pending = Pending()
        self._on_effects = on_effects
        self._call_watchers: tuple[CallWatcher, ...] = ()

    def watch_calls(self, watcher: CallWatcher) -> Callable[[], None]:
        """Tells `watcher` after every commit which calls have changed, as (conversation, ref). Returns how to
        stop.

        Called on the loop. While nobody watches nothing is gathered.
        """
        self._call_watchers = (*self._call_watchers, watcher)

        def stop() -> None:
            self._call_watchers = tuple(one for one in self._call_watchers if one is not watcher)

        return stop

    def submit(self, source: str, decide: Decide[T], *sites: str) -> asyncio.Future[T]:
        """Queues one decision now. `source` is the entry for the audit, `sites` name its fault sites.

        The future raises what the decision raised, or DatabaseError.
        """
        return self._submit(lambda tx: self.join(tx, source, decide, *sites))

    def _submit(self, job: Callable[[Tx], T]) -> asyncio.Future[T]:
        """One job with everything that waited for company; what is undone with it waits again."""
        pending, self.pending = self.pending, Pending()
        if not pending:
            return self.foundation.database.submit(job)

        def with_company(tx: Tx) -> T:
            self._write_pending(tx, pending)
            return job(tx)

        try:
            done = self.foundation.database.submit(with_company)
        except DatabaseError:
            self._wait_again(pending)
            raise
        done.add_done_callback(lambda done: self._wait_again(pending) if _has_failed(done) else None)
        return done

    def join(self, tx: Tx, source: str, decide: Decide[T], *sites: str) -> T:
        """Decides and writes within a running job of somebody else (the registry)."""
        moment = Moment(self.foundation.clock.now_ms(), self.device)
        plan = Plan(moment, self.foundation.ids, source, self.limits)
        answer = decide(tx, plan)
        if plan.facts:
            write_facts(tx, self.runtime_id, plan.facts, plan.now)
            plan.effects += projections(plan.facts)
        reached = () if self.foundation.faults.asleep else (*sites, *_sites_of(plan))
        for site in reached:
            self.foundation.faults.reach(f"{site}.before_commit")
        if reached or plan.effects:
            ended = [f.operation.operation_id for f in plan.facts if isinstance(f, OperationEnded)]
            tx.after_commit(partial(self._committed, reached, plan.effects, ended))
        if self._call_watchers and (changed := _calls_in(plan.facts)):
            tx.after_commit(partial(self._tell_watchers, changed))
        return answer

    def _tell_watchers(self, changed: frozenset[tuple[str, str]]) -> None:
        for watcher in self._call_watchers:
            watcher(changed)

    def _committed(self, sites: tuple[str, ...], effects: list[Effect], ended: list[str]) -> None:
        for operation_id in ended:
            self.stopwatch.pop(operation_id, None)
        try:
            for site in sites:
                self.foundation.faults.reach(f"{site}.after_commit")
        except Exception:
            # Hints may be lost, and the sweep finds them again; but what is said keeps its order.
            self._on_effects([one for one in effects if isinstance(one, SendSoon)])
            raise
        if effects:
            self._on_effects(effects)

    def flush(self) -> asyncio.Future[None] | None:
        """Writes what waited for company and found none; every other commit takes it along."""
        return self._submit(lambda _: None) if self.pending else None

    def _write_pending(self, tx: Tx, pending: Pending) -> None:
        now = self.foundation.clock.now_ms()
        outbox.settle(tx, self.runtime_id, pending.settled, now)
        for conversation_id, position in pending.cursors.items():
            outbox.move_cursor(tx, self.runtime_id, conversation_id, position, now)

    def _wait_again(self, pending: Pending) -> None:
        """Written twice they change nothing, so it does not matter whether they were stored after all."""
        self.pending.settled[:0] = pending.settled
        for conversation_id, position in pending.cursors.items():
            known = self.pending.cursors.get(conversation_id, 0)
            self.pending.cursors[conversation_id] = max(known, position)

    def elapsed_ms(self, operation: Operation) -> int:
        """How long an operation has run: by the monotonic clock, or by wall clock if that began elsewhere."""
        began = self.stopwatch.get(operation.operation_id)
        if began is not None:
            return round((self.foundation.clock.monotonic() - began) * 1000)
        return self.foundation.clock.now_ms() - operation.started_at


def _has_failed(done: asyncio.Future[Any]) -> bool:
    return not done.cancelled() and done.exception() is not None


def _calls_in(facts: list[Fact]) -> frozenset[tuple[str, str]]:
    """The calls that a decision is about, as (conversation, ref)."""
    changed: set[tuple[str, str]] = set()
    for fact in facts:
        if isinstance(fact, CallAccepted | CallChanged):
            changed.add((fact.call.conversation_id, fact.call.ref))
        elif isinstance(fact, OperationStarted | OperationEnded):
            changed.add((fact.operation.conversation_id, fact.operation.call_ref))
    return frozenset(changed)


def _sites_of(plan: Plan) -> list[str]:
    """Fault sites that a decision reaches by what it decided, whatever event led to it."""
    sites: list[str] = []
    for fact in plan.facts:
        if isinstance(fact, CallAccepted):
            sites.append(SITE_ACCEPT)
        elif isinstance(fact, CallChanged) and fact.call.ended:
            sites.append(SITE_RESULT)
        elif isinstance(fact, OperationStarted):
            sites.append(SITE_OPERATION_START)
        elif isinstance(fact, ActivationEnded):
            sites.append(SITE_ACTIVATION)
    return list(dict.fromkeys(sites))
