"""Exit codes and words of failures."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import pytest

from lineloop.cli.doctor import sentence_of
from lineloop.cli.failures import CommandFailed, Exit, failure_of, tell
from lineloop.cli.lifetime import why_not_started
from lineloop.cli.logs import hide_secrets
from lineloop.kit.datadir import DataDirLocked
from lineloop.kit.filesystem import NetworkFilesystem
from lineloop.kit.schema import DatabaseTooNew
from lineloop.kit.storage_errors import DatabaseCorrupt, DatabaseUnavailable
from lineloop.protocol.errors import (
    ConnectionLost,
    ErrorCode,
    Forbidden,
    InvalidRequest,
    LoopError,
    NotFound,
    StorageUnavailable,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), Exit.NOT_FOUND),
        (Forbidden("x"), Exit.REFUSED),
        (ConnectionLost("x"), Exit.TEMPORARY),
        (InvalidRequest("x"), Exit.FAILED),
        (LoopError("x", code=ErrorCode.KEY_CONFLICT), Exit.FAILED),
        (LoopError("x", code=ErrorCode.APP_PROTECTED), Exit.REFUSED),
        (LoopError("x", code=ErrorCode.SCOPE_RESERVED), Exit.REFUSED),
    ],
)
def test_an_error_has_one_exit_code(error: LoopError, code: Exit) -> None:
    assert failure_of(error).code is code


def test_a_failure_is_told_in_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell(CommandFailed("port 1 is taken", Exit.TEMPORARY, hint="choose another")) == 75
    assert capsys.readouterr().err == "lineloop: port 1 is taken\n  choose another\n"


def test_foreign_words_in_a_failure_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    tell(CommandFailed("\x00\x1b[2J\u202eno luck", hint="one\n  two\x07"))
    assert capsys.readouterr().err == "lineloop: [2Jno luck\n  one\n  two\n"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (DataDirLocked(Path("/d"), 4711), Exit.TEMPORARY, "4711"),
        (NetworkFilesystem(Path("/d"), "nfs4"), Exit.FAILED, "nfs4"),
        (DatabaseTooNew("/d/server.db", "0999"), Exit.FAILED, "newer version"),
    ],
)
def test_a_failed_start_says_what_to_do(error: Exception, code: Exit, words: str) -> None:
    failure = why_not_started(error)
    assert failure is not None
    assert failure.code is code
    assert words in failure.message
    assert failure.hint


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", "/d/x"), "/d/x: Read-only file system"),
        (FileExistsError(errno.EEXIST, "File exists", "/d"), "/d is not a directory"),
        (DatabaseUnavailable("/d/x: database or disk is full"), "/d/x: database or disk is full"),
        (sqlite3.OperationalError("no such table: meta"), "no such table: meta"),
    ],
)
def test_what_the_system_refuses_is_told_without_a_traceback(error: Exception, words: str) -> None:
    failure = why_not_started(error)
    assert failure is not None
    assert (failure.code, words in failure.message) == (Exit.FAILED, True)


def test_a_damaged_database_is_no_reason_to_try_again_although_its_wire_code_is() -> None:
    error = StorageUnavailable("malformed")
    error.__cause__ = DatabaseCorrupt("/d/x: malformed")
    failure = why_not_started(error)
    assert failure is not None
    assert failure.code is Exit.FAILED
    assert "damaged" in failure.message


def test_an_unforeseen_failure_keeps_its_traceback() -> None:
    assert why_not_started(RuntimeError("bug")) is None


def test_credentials_never_reach_the_log() -> None:
    event = {"event": "ready", "admin_token": "s3cret", "Authorization": "Bearer s3cret", "pid": 1}
    assert "s3cret" not in str(hide_secrets(None, "info", event))


def test_a_fault_site_has_a_sentence() -> None:
    assert sentence_of("device.accept.before_commit") == "device: accept, just before its commit"
    assert sentence_of("device.container.start") == "device: at container start"
