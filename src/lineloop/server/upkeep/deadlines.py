"""Deadlines: questions close on time, abandoned streams end (spec/protocol.md §3.5, §6.1).

A timer for the next due question makes it precise; a sweep makes it certain, also after a restart.
"""

from __future__ import annotations

import asyncio

import structlog

from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.database import Tx
from lineloop.protocol.content import error_meta
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.messages import MessageStatus, Purpose
from lineloop.server.commit import Commits
from lineloop.server.commit.locking import lock_conversation
from lineloop.server.commit.streaming import EndCommand, end_in
from lineloop.server.store import messages, questions
from lineloop.server.wakeup.bus import Bus, Hint, MessageChanged

SILENT_SWEEP_SECONDS = 60.0
SILENT_LIMIT = 50
RETRY_SECONDS = 1.0

_log = structlog.get_logger(__name__)


class QuestionTimer:
    """Wakes at the next deadline, at a new question, and at every `sweep_seconds`."""

    def __init__(self, commits: Commits, clock: Clock, bus: Bus, sweep_seconds: float) -> None:
        self._commits = commits
        self._clock = clock
        self._sweep_seconds = sweep_seconds
        self._wake = asyncio.Event()
        bus.listen_all(self._hear)

    def _hear(self, hint: Hint) -> None:
        if not isinstance(hint, MessageChanged) or hint.message is None:
            return
        if hint.message.purpose is Purpose.QUESTION:
            self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            wait = self._sweep_seconds
            try:
                due = await self._commits.read(questions.next_due)
                if due is not None:
                    left = (due - self._clock.now_ms()) / 1000
                    if left <= 0:
                        await self._commits.close_due_questions()
                        continue
                    wait = min(wait, left)
            except LoopError as error:
                _log.warning("question_timer_failed", code=error.code)
                wait = RETRY_SECONDS
            try:
                await with_timeout(self._clock, wait, self._wake.wait())
            except TimeoutError:
                continue


class SilentStreams:
    """Ends streams whose writer is gone, `failed` with meta.error `writer_gone`. Never a run's output."""

    def __init__(self, commits: Commits, clock: Clock) -> None:
        self._commits = commits
        self._clock = clock

    async def run(self) -> None:
        while True:
            try:
                while await self.end_silent():
                    continue
            except LoopError as error:
                _log.warning("silent_streams_failed", code=error.code)
            await self._clock.sleep(SILENT_SWEEP_SECONDS)

    async def end_silent(self) -> int:
        """Ends those that are due; how many. Looks first: an idle server writes nothing."""
        limits = self._commits.ctx.limits
        before = self._clock.now_ms() - limits.silent_stream_ms
        silent = await self._commits.read(
            lambda tx: messages.silent_streams(tx, before=before, limit=SILENT_LIMIT)
        )
        for one in silent:
            await self._commits.write(lambda tx, one=one: self._end_in(tx, one), "server.silent", one.root_id)
        return len(silent)

    def _end_in(self, tx: Tx, silent: messages.SilentStream) -> None:
        """The end carries the reason, and the time of the last sign of life: nobody has written since."""
        lock_conversation(tx, self._commits.ctx, silent.root_id)
        if messages.heard_at(tx, silent.id) != silent.heard_at:
            return  # It ended, or its writer came back.
        meta = error_meta(ErrorCode.WRITER_GONE, "The writer of this message fell silent.")
        end = EndCommand(silent.id, None, MessageStatus.FAILED, meta=meta, at=silent.heard_at)
        end_in(tx, self._commits.ctx, end)
