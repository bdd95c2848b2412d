"""Output that cannot be written or shown, and arguments that are no text: words and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lineloop.cli.chat.command import ChatOptions, run_chat
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.settings import Settings

WRITE = "from lineloop.cli.chat.output import OutputLost, tolerate_encodings, write_line\n"


def run(code: str, stdout: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    shell = f'exec "$0" -c "$1" {stdout}'
    return subprocess.run(
        ["sh", "-c", shell, sys.executable, WRITE + code], capture_output=True, check=False, env=environment
    )


def test_a_full_disk_is_said_once_and_nothing_trips_over_it_at_the_end() -> None:
    code = "import sys\ntry: write_line('x')\nexcept OutputLost as lost: sys.exit(lost.message)"
    done = run(code, ">/dev/full")
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"No space left" in done.stderr


def test_a_reader_that_went_away_is_no_news() -> None:
    code = (
        "import os, sys\nr, w = os.pipe(); os.close(r); os.dup2(w, 1)\n"
        "try: write_line('x')\nexcept OutputLost as lost: sys.exit(7 if lost.silent else 8)"
    )
    done = run(code, "")
    assert (done.returncode, done.stderr) == (7, b"")


def test_a_closed_stdout_is_lost_output() -> None:
    done = run("try: write_line('x')\nexcept OutputLost: raise SystemExit(9)", ">&-")
    assert (done.returncode, done.stderr) == (9, b"")


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "你\n".encode()), ("latin-1", b"?\n")])
def test_a_narrow_encoding_fails_nothing(encoding: str, shown: bytes) -> None:
    done = run("tolerate_encodings(); write_line('\\u4f60')", "", PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stdout) == (0, shown)


@pytest.mark.parametrize(
    "options",
    [
        ChatOptions(""),
        ChatOptions(" \n"),
        ChatOptions("\udcff"),
        ChatOptions("a", to="operator/\udcff"),
        ChatOptions(answer=""),
        ChatOptions("a", dismiss=True),
        ChatOptions(answer="a", dismiss=True),
        ChatOptions("a", question="msg_1"),
        ChatOptions(answer="a", new=True),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_is_sent(
    options: ChatOptions, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed) as caught:
        await run_chat(Settings(data_dir=tmp_path), options)
    assert caught.value.code is Exit.USAGE
