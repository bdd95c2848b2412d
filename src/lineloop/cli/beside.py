"""A chat on a system that another process started: said at the beginning, and when that process ends.

Decides that such a chat ends with its system: without it there would be nobody to talk to, and nothing that
brings it back.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.running import find_running
from lineloop.kit.clock import Clock, SystemClock
from lineloop.kit.tasks import Tasks

LOOK_SECONDS = 0.5
HINT = "Everything said is stored. Start a system of your own with: lineloop up --chat"


async def chat_beside(
    data_dir: Path, pid: int, chat: Coroutine[Any, Any, int], clock: Clock | None = None
) -> int:
    """Runs `chat` while the system of process `pid` runs. Raises CommandFailed (75) when it ended first."""
    print(f"using the Lineloop of process {pid}; this chat ends when it does", file=sys.stderr)
    ended = False
    chatting = asyncio.current_task()
    assert chatting is not None

    async def watch() -> None:
        nonlocal ended
        looking = clock or SystemClock()
        while (running := find_running(data_dir)) and running.pid == pid:
            await looking.sleep(LOOK_SECONDS)
        ended = True
        chatting.cancel()

    try:
        async with Tasks("beside") as tasks:
            tasks.spawn(watch(), name="watch")
            return await chat
    except asyncio.CancelledError:
        if not ended:
            raise
        chatting.uncancel()
    raise CommandFailed(
        f"the Lineloop of process {pid} has ended, and this chat with it", Exit.TEMPORARY, hint=HINT
    )
