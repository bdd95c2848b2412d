"""Drives Runs: takes leases, calls adapters, stops them, ends what is due (spec/protocol.md §6.2).

Decides which Run is driven when, what a failure means for it, and how it is stopped. Whether a write is
allowed is decided by the storage, what is said by the adapter. Dropping a Runner at any point loses
nothing: another one resumes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from lineloop.harness.adapters.port import Adapter, Replay, RunFailed, RunResult
from lineloop.harness.journal import OUTPUT_INVALID, RETRY
from lineloop.harness.live_io import STEP, LiveIO, Stopped, Suspended
from lineloop.harness.model_targets import harness_of
from lineloop.harness.outcome import check_result
from lineloop.harness.port import Claim, Entry, Finish, Lease, RunChange, RunPort
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.database import DatabaseError
from lineloop.kit.faults import FaultInjected
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.machines import RunEvent, RunPhase

DEFAULT_SLOTS = 50
LEASE_SECONDS = 30.0
SWEEP_SECONDS = 1.0
GRACE_SECONDS = 5.0
MAX_RETRIES = 3
RETRY_SECONDS = (1.0, 5.0, 20.0)
STORAGE_PAUSE_SECONDS = 1.0
_DUE_BATCH = 100

T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Drive:
    """A Run in a slot. `stop` is set to the event that ends it, or to None for a release without an end."""

    claim: Claim
    io: LiveIO
    stop: asyncio.Future[RunEvent | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def ask_to_stop(self, event: RunEvent | None) -> None:
        if not self.stop.done():
            self.stop.set_result(event)


class Runner:
    """One replica's driver. `start` begins, `stop` releases every lease so that others (or a restart) go on
    at once.
    """

    def __init__(
        self,
        port: RunPort,
        adapters: Mapping[str, Adapter],
        clock: Clock,
        ids: Ids,
        *,
        slots: int = DEFAULT_SLOTS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._port = port
        self._adapters = dict(adapters)
        self._clock = clock
        self._holder = ids.make("runner")
        self._slots = slots
        self._lease_ms = int(lease_seconds * 1000)
        self._tasks = Tasks("harness")
        self._adapter_tasks = Tasks("harness_adapters")
        self._drives: dict[str, _Drive] = {}
        self._wake = asyncio.Event()
        self._stopping = False

    @property
    def driving(self) -> int:
        """How many slots are taken."""
        return len(self._drives)

    async def start(self) -> None:
        self._port.on_runnable(self._wake.set)
        self._port.on_cancelled(self._cancelled)
        self._tasks.spawn(self._pump(), name="pump")
        self._tasks.spawn(self._tick(), name="sweep")
        self._tasks.spawn(self._maintain(), name="maintenance")
        self._tasks.spawn(self._renew(), name="renewal")

    async def stop(self) -> None:
        """Let go of everything: adapters are cancelled, leases given back, nothing ends."""
        self._stopping = True
        leases = [drive.claim.lease for drive in self._drives.values()]
        for drive in self._drives.values():
            drive.io.close()
        try:
            await with_timeout(self._clock, GRACE_SECONDS, self._adapter_tasks.close())
        except TimeoutError:
            _log.warning("adapters_left_behind", count=len(self._adapter_tasks))
        await self._tasks.close()
        if leases:
            await self._quietly(self._port.release(leases), "release")

    async def _pump(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            free = self._slots - len(self._drives)
            if free <= 0:
                continue
            claims = await self._quietly(self._port.claim(self._holder, free, self._lease_ms), "claim") or []
            if self._stopping:
                await self._quietly(self._port.release([claim.lease for claim in claims]), "release")
                return
            for claim in claims:
                self._begin(claim)
            if len(claims) == free:
                self._wake.set()

    async def _tick(self) -> None:
        """Backs every hint: look once a second, whatever was heard."""
        while True:
            if await self._quietly(self._port.has_runnable(), "has_runnable"):
                self._wake.set()
            await self._clock.sleep(SWEEP_SECONDS)

    async def _maintain(self) -> None:
        """End what is overdue or cancelled and held by nobody; stop what is overdue here. Never waits for a
        slot.
        """
        while True:
            now = self._clock.now_ms()
            for drive in self._drives.values():
                if drive.claim.request.deadline_ms <= now:
                    drive.ask_to_stop(RunEvent.TIME_OUT)
            await self._quietly(self._notice_stops(), "stops")
            await self._quietly(self._port.end_due(_DUE_BATCH), "end_due")
            await self._clock.sleep(SWEEP_SECONDS)

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(self._lease_ms / 3000)
            await self._quietly(self._notice_stops(renew=True), "renew")

    async def _notice_stops(self, *, renew: bool = False) -> None:
        """Find out which Runs here were cancelled or taken over; with `renew`, keep the others."""
        leases = [drive.claim.lease for drive in self._drives.values()]
        if not leases:
            return
        held = await self._port.renew(leases, self._lease_ms if renew else 0)
        for run_id in held.lost:
            if run_id in self._drives:
                self._drives[run_id].ask_to_stop(None)
        for run_id in held.cancelled:
            if run_id in self._drives:
                self._drives[run_id].ask_to_stop(RunEvent.CANCEL)

    def _cancelled(self, run_id: str) -> None:
        if run_id in self._drives:
            self._drives[run_id].ask_to_stop(RunEvent.CANCEL)

    def _begin(self, claim: Claim) -> None:
        adapter = self._adapters.get(harness_of(claim.request.target))
        replay = adapter.replay if adapter is not None else Replay.NONE
        drive = _Drive(claim, LiveIO(claim, replay, self._port, self._clock))
        self._drives[claim.request.run_id] = drive
        self._tasks.spawn(self._drive(drive, adapter), name=claim.request.run_id)

    async def _drive(self, drive: _Drive, adapter: Adapter | None) -> None:
        run_id = drive.claim.request.run_id
        try:
            finish = await self._outcome(drive, adapter)
            if finish is not None:
                await drive.io.finish(finish)
        except (Suspended, Stopped):
            pass
        except (LoopError, DatabaseError, FaultInjected) as error:
            await self._set_aside(drive, error)
        finally:
            self._drives.pop(run_id, None)
            self._wake.set()

    async def _outcome(self, drive: _Drive, adapter: Adapter | None) -> Finish | None:
        """How the Run ends, or None when it does not end here."""
        claim = drive.claim
        if adapter is None:
            return _lost(f"this server has no harness {claim.request.target!r}")
        if claim.phase is RunPhase.RUNNING and adapter.replay is Replay.NONE:
            return _lost("the run was interrupted and this harness cannot continue")
        if claim.submitting is not None:
            return _lost("the run was interrupted while it was being handed over")
        if self._stopping:
            return None  # given back with the others
        work = self._adapter_tasks.spawn(
            _unwinding(self._work(drive, adapter)), name=f"{claim.request.run_id}/adapter"
        )
        await asyncio.wait({work, drive.stop}, return_when=asyncio.FIRST_COMPLETED)
        if drive.stop.done() and not (work.done() and not work.cancelled()):
            return await self._stopped(drive, work, drive.stop.result())
        if work.cancelled():
            return None  # the whole engine stops: the Run is given back and goes on elsewhere or later
        return self._settled(work.result())

    def _settled(self, result: Finish | BaseException | None) -> Finish | None:
        if isinstance(result, BaseException):
            raise result
        return result

    async def _stopped(
        self, drive: _Drive, work: asyncio.Task[Finish | BaseException | None], event: RunEvent | None
    ) -> Finish | None:
        """Cancel the adapter and give it a moment; an adapter that does not listen is left behind, unable
        to write.
        """
        drive.io.cancelled = True
        drive.io.close()
        work.cancel()
        grace = self._tasks.spawn(self._clock.sleep(GRACE_SECONDS), name="grace")
        await asyncio.wait({work, grace}, return_when=asyncio.FIRST_COMPLETED)
        grace.cancel()
        if event is None:
            return None
        return Finish(event, facts={} if work.done() else {"native_unconfirmed": True})

    async def _work(self, drive: _Drive, adapter: Adapter) -> Finish | None:
        claim, io = drive.claim, drive.io
        try:
            await io.load_prefix()
            if claim.revision == 0 or adapter.replay is Replay.EXACT:
                await io.emit(_harness_meta(claim.request.target, adapter))
            if claim.phase is RunPhase.STARTING and adapter.replay is Replay.NONE:
                await io.enter_running()
            if claim.phase is RunPhase.STARTING and not io.journal.references:
                result = await adapter.run(claim.request, io)
            else:
                result = await adapter.resume(claim.request, io.journal.references, io)
            checked = await self._checked(result, claim, adapter, io)
            return Finish(RunEvent.SUCCEED, result={"format": checked.format, "content": checked.content})
        except RunFailed as failure:
            if failure.retryable and claim.retries < MAX_RETRIES:
                await self._retry(drive, failure)
                return None
            return Finish(RunEvent.FAIL, error={"code": failure.code, "message": failure.message})
        except LoopError as error:
            if error.code in _STORAGE_CODES:
                raise
            return Finish(RunEvent.FAIL, error={"code": str(error.code), "message": error.message})
        except (DatabaseError, FaultInjected):
            raise
        except Exception:
            _log.exception("adapter_failed", run_id=claim.request.run_id, target=claim.request.target)
            return Finish(RunEvent.FAIL, error={"code": "run_failed", "message": "The harness failed."})

    async def _checked(self, result: RunResult, claim: Claim, adapter: Adapter, io: LiveIO) -> RunResult:
        """The result, repaired once if it breaks its schema. Raises RunFailed `output_invalid`."""
        checked, problem = check_result(result, claim.request.output_schema)
        if not problem:
            return checked
        await io.record(OUTPUT_INVALID, "1", {}, {"problem": problem})
        repaired = await adapter.repair(claim.request, result.content, problem, io)
        if repaired is not None:
            checked, problem = check_result(repaired, claim.request.output_schema)
            if not problem:
                return checked
        raise RunFailed(str(ErrorCode.OUTPUT_INVALID), f"The result does not satisfy its schema: {problem}")

    async def _retry(self, drive: _Drive, failure: RunFailed) -> None:
        delay = RETRY_SECONDS[min(drive.claim.retries, len(RETRY_SECONDS) - 1)]
        entry = Entry(
            RETRY, {"code": failure.code, "after_ms": int(delay * 1000)}, str(drive.claim.lease.token)
        )
        drive.io.close()
        await self._port.write(
            drive.claim.lease,
            RunChange(entries=(entry,), retry_in_ms=int(delay * 1000)),
            label=STEP,
        )

    async def _set_aside(self, drive: _Drive, error: BaseException) -> None:
        """The storage refused or lost an answer: what is stored counts, so give the Run back and start from
        there.
        """
        run_id = drive.claim.request.run_id
        drive.io.close()
        if isinstance(error, LoopError) and error.code == ErrorCode.LEASE_LOST:
            _log.info("lease_lost", run_id=run_id)
            return
        _log.warning("run_set_aside", run_id=run_id, error=str(error))
        if not isinstance(error, FaultInjected):
            await self._clock.sleep(STORAGE_PAUSE_SECONDS)
        await self._quietly(self._port.release([drive.claim.lease]), "release")

    async def _quietly(self, work: Coroutine[Any, Any, T], what: str) -> T | None:
        """A loop of the engine outlives a refused write; the next turn tries again."""
        try:
            return await work
        except (LoopError, DatabaseError, FaultInjected) as error:
            _log.warning("engine_write_failed", what=what, error=str(error))
            return None


_STORAGE_CODES = frozenset(
    {
        ErrorCode.LEASE_LOST,
        ErrorCode.STORAGE_UNAVAILABLE,
        ErrorCode.OVERLOADED,
        ErrorCode.CONNECTION_LOST,
        ErrorCode.DATABASE_LOCKED,
        ErrorCode.SEQUENCE_CONFLICT,
        ErrorCode.FAULT_INJECTED,
    }
)


async def _unwinding(work: Coroutine[Any, Any, Finish | None]) -> Finish | BaseException | None:
    """Carry an adapter's way out as a value: a task that ends with an exception would count as a crash."""
    try:
        return await work
    except (Suspended, Stopped, LoopError, DatabaseError, FaultInjected) as left:
        return left


def _lost(message: str) -> Finish:
    return Finish(RunEvent.LOSE, error={"code": str(ErrorCode.RUN_OUTCOME_UNKNOWN), "message": message})


def _harness_meta(target: str, adapter: Adapter) -> dict[str, Any]:
    harness = {"target": target, **({"label": adapter.label} if adapter.label else {})}
    return {"op": "set", "mask": "meta.harness", "meta": {"harness": harness}}


__all__ = ["DEFAULT_SLOTS", "Lease", "Runner"]
