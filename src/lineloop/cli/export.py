"""`lineloop export`: a conversation as a file to keep."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.reach import admin_transport
from lineloop.client.loop import Loop
from lineloop.settings import Settings


async def export_conversation(
    settings: Settings, conversation_id: str, export_format: str, output: Path | None
) -> int:
    """Writes to `output`, which appears when it is whole, or to stdout. Raises LoopError, CommandFailed."""
    async with (
        admin_transport(settings) as transport,
        Loop(transport).conversation(conversation_id).export(export_format) as parts,
    ):
        if output is None:
            async for part in parts:
                sys.stdout.buffer.write(part)
            sys.stdout.buffer.flush()
        else:
            await _keep(parts, output)
    return Exit.DONE


async def _keep(parts: AsyncIterator[bytes], output: Path) -> None:
    beside = output.with_name(f".{output.name}.{os.getpid()}.new")
    try:
        with _opened(beside) as file:
            async for part in parts:
                file.write(part)
        beside.replace(output)
    except OSError as error:
        raise CommandFailed(f"{output}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def _opened(path: Path) -> BinaryIO:
    """For its owner only: what people said is nobody else's."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
