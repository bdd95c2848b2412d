"""Reports that must reach the commit room: tried again until they are stored.

An effect has happened (a handler answered, the host confirmed, time passed); only storing it can fail.
Decides how long to wait between tries, nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from lineloop.kit.backoff import Backoff
from lineloop.kit.clock import Clock
from lineloop.protocol.errors import LoopError

T = TypeVar("T")

_log = structlog.get_logger(__name__)


async def insist(clock: Clock, what: str, attempt: Callable[[], Awaitable[T]]) -> T:
    """The answer of `attempt`, made again after every failure that is not a decision.

    Raises the LoopError of a decision that refused for good; else ends only with success or cancellation.
    """
    backoff: Backoff | None = None
    tries = 0
    while True:
        try:
            return await attempt()
        except LoopError as error:
            if not error.retryable:
                raise
            _log.warning("report_not_stored", what=what, code=str(error.code), tries=tries)
        except Exception as error:
            _log.warning("report_not_stored", what=what, error=repr(error), tries=tries)
        backoff = backoff or Backoff(0.1, 2.0, 5.0, 0.2, random.Random())
        await clock.sleep(backoff.delay(tries))
        tries += 1
