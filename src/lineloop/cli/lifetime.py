"""The life of a long-running command: start, announce, wait for a signal, stop in order.

Decides signals, the ready file's moment, how long a stop may take, and which words a failed start gets.
Leaves to the composition roots which parts there are.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from lineloop.cli import quick_start
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.logs import set_up_logs
from lineloop.cli.running import Ready, ReadyFiles
from lineloop.kit.database import DatabaseError
from lineloop.kit.datadir import DataDirLocked
from lineloop.kit.faults import Faults
from lineloop.kit.filesystem import NetworkFilesystem
from lineloop.kit.schema import DatabaseTooNew
from lineloop.kit.storage_errors import DatabaseBusyElsewhere, DatabaseCorrupt
from lineloop.protocol.errors import LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.settings import Settings

STOP_SECONDS = 9.0


class Stop:
    """When a command should end, and whether something broke it."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self.broken: BaseException | None = None

    def ask(self) -> None:
        self._asked.set()

    def because_of(self, error: BaseException) -> None:
        """Something fatal happened (a storage failure of unknown outcome): end, and say so."""
        self.broken = self.broken or error
        self._asked.set()

    async def wait(self) -> None:
        await self._asked.wait()


Part = Callable[[Stop], AbstractAsyncContextManager[Ready]]


def live(settings: Settings, part: Part, *, announce_in: Path, ready_file: Path | None) -> int:
    """Runs a composition until a signal comes. Raises CommandFailed when it cannot start."""
    set_up_logs(settings.log_format, settings.log_level)
    files = ReadyFiles(announce_in, ready_file)
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        stop = Stop()
        try:
            runner.run(_live(part, files, stop))
        except Exception as error:
            # Where the storage broke, that others could not go on is a consequence.
            failure = why_not_started(stop.broken or error)
            if failure is None:
                raise
            raise failure from error
    if stop.broken:
        why = why_not_started(stop.broken)
        raise CommandFailed(f"stopped: {why.message if why else stop.broken}", hint=why.hint if why else "")
    return Exit.DONE


async def _live(part: Part, files: ReadyFiles, stop: Stop) -> None:
    import structlog

    log: Any = structlog.get_logger("lineloop")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    async with part(stop) as ready:
        try:
            files.write(ready)
            quick_start.end()
            log.info("ready", pid=ready.pid, server_url=ready.server_url, device_key=ready.device_key)
            await stop.wait()
        finally:
            files.remove()
            # Everything accepted is stored, so a part that does not end in time may be left behind.
            loop.call_later(STOP_SECONDS, os._exit, Exit.FAILED if stop.broken else Exit.DONE)
        log.info("stopping")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def planned_faults(settings: Settings) -> Faults:
    """The faults that the environment asks for. Raises CommandFailed for an unknown site or mode."""
    try:
        return Faults(FaultSite, settings.fault_plan, counts=False)
    except ValueError as error:
        raise CommandFailed(f"LINELOOP_FAULT: {error}", Exit.USAGE) from error


def why_not_started(error: BaseException) -> CommandFailed | None:
    """Words and exit code for what commonly keeps a system from starting; None for anything else."""
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return why_not_started(error.exceptions[0])
    match error:
        case DataDirLocked():
            hint = "Stop that process first, or choose other data."
            return CommandFailed(str(error), Exit.TEMPORARY, hint=hint)
        case NetworkFilesystem():
            hint = "SQLite cannot keep its promises there: choose a --data-dir on a local disk."
            return CommandFailed(str(error), hint=hint)
        case DatabaseTooNew():
            hint = "Install the version of Lineloop that wrote it; nothing was changed."
            return CommandFailed(f"the database is from a newer version: {error}", hint=hint)
        case DatabaseBusyElsewhere():
            return CommandFailed(f"another process holds the database: {error}", Exit.TEMPORARY)
        case DatabaseCorrupt():
            hint = "Nothing was changed. Copies made before an upgrade lie beside it (*.before-*)."
            return CommandFailed(f"the database is damaged: {error}", hint=hint)
        case DatabaseError():
            return CommandFailed(str(error))
        case sqlite3.Error():
            hint = "Is it the database of this part of Lineloop?"
            return CommandFailed(f"the database cannot be used: {error}", hint=hint)
        case LoopError(__cause__=DatabaseError() as cause):
            return why_not_started(cause)
        case OSError():
            return CommandFailed(words_of(error))
        case _:
            return None


def words_of(error: OSError) -> str:
    """What the system refused, with the path when it is known."""
    if isinstance(error, FileExistsError | NotADirectoryError) and error.filename:
        return f"{error.filename} is not a directory"
    what = error.strerror or str(error)
    return f"{error.filename}: {what}" if error.filename else what
