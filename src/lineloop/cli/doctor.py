"""`lineloop doctor`: is this machine able, is this data directory sound, and where can faults be injected.

Decides what is checked and the words; changes nothing. Each check stands alone, so one failure hides no
other.
"""

from __future__ import annotations

import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from lineloop.cli.data_files import DATABASES, DEVICE_DATABASE, refuse_emptied
from lineloop.cli.failures import Exit
from lineloop.cli.lifetime import words_of
from lineloop.cli.models import kept_target
from lineloop.cli.running import find_running
from lineloop.kit.filesystem import (
    NetworkFilesystem,
    filesystem_of,
    refuse_network_filesystem,
    refuse_unusable_directory,
)
from lineloop.kit.json import dumps
from lineloop.kit.schema import damage_in
from lineloop.protocol.fault_sites import FaultSite
from lineloop.settings import Settings

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 37, 0)
ENOUGH_BYTES = 200 * 1024 * 1024
MOMENTS = {
    "before_commit": "just before its commit",
    "after_commit": "just after its commit",
    "before": "just before it",
    "after": "just after it",
    "before_rename": "before the files move into place",
    "after_rename": "after the files moved into place",
}


class Check(NamedTuple):
    name: str
    ok: bool
    detail: str


def run_checks(settings: Settings, *, as_json: bool) -> int:
    """Prints every check; 1 when one failed."""
    data_dir = settings.data_dir
    checks = [
        _python(),
        _sqlite(),
        _guarded("logic container", _container),
        _guarded("data directory", lambda: _directory(data_dir)),
        _guarded("file system", lambda: _filesystem(data_dir)),
        _guarded("disk space", lambda: _space(data_dir)),
        *(_guarded(str(name), lambda name=name: _database(data_dir, name)) for name in DATABASES),
        *([_guarded("database server", lambda: _database_server(settings))] if settings.database else []),
        _guarded("model", lambda: kept_target(settings, data_dir)),
        _running(data_dir),
    ]
    ok = all(check.ok for check in checks)
    if as_json:
        print(dumps({"ok": ok, "data_dir": str(data_dir), "checks": [check._asdict() for check in checks]}))
    else:
        print(f"data directory: {data_dir}")
        for check in checks:
            print(f"{'ok  ' if check.ok else 'FAIL'}  {check.name}: {check.detail}")
    return Exit.DONE if ok else Exit.FAILED


def _guarded(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name, True, check())
    except OSError as problem:
        return Check(name, False, words_of(problem))
    except Exception as problem:
        return Check(name, False, str(problem) or type(problem).__name__)


def _python() -> Check:
    return Check(
        "python", sys.version_info[:2] >= OLDEST_PYTHON, f"{platform.python_version()} on {sys.platform}"
    )


def _sqlite() -> Check:
    return Check("sqlite", sqlite3.sqlite_version_info >= OLDEST_SQLITE, sqlite3.sqlite_version)


def _container() -> str:
    import quickjs

    answer = quickjs.Context().eval("[1, 2].map(x => x * 21)[1]")
    if answer != 42:
        raise RuntimeError(f"the JavaScript engine answered {answer}")
    return "the JavaScript engine answers"


def _directory(data_dir: Path) -> str:
    refuse_unusable_directory(data_dir)
    return "can be used" if data_dir.exists() else "can be made"


def _filesystem(data_dir: Path) -> str:
    try:
        refuse_network_filesystem(data_dir)
    except NetworkFilesystem as problem:
        raise RuntimeError(
            f"{problem.kind} is a network file system; the data needs a local disk"
        ) from problem
    return filesystem_of(data_dir) or "local"


def _space(data_dir: Path) -> str:
    place = next(path for path in (data_dir, *data_dir.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < ENOUGH_BYTES:
        raise RuntimeError(f"only {free // 1024**2} MiB are free")
    return f"{free // 1024**2} MiB free"


def _database(data_dir: Path, name: Path) -> str:
    path = data_dir / name
    if not path.exists():
        return "not created yet"
    refuse_emptied(path, data_dir)
    if not path.stat().st_size:
        return "empty, as new"
    # Read-only and immutable=0: a running system keeps its locks, nothing is recovered or written here.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)) as connection:
        if damage := damage_in(path):
            raise RuntimeError(f"{path} is damaged: {damage}")
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    revision = found[0] if found else "unknown"
    head = _head(name)
    # Revisions are numbered, so a later one sorts behind.
    if not found or revision > head:
        raise RuntimeError(f"{path} has schema {revision}; this version of Lineloop knows {head}")
    behind = f", brought to {head} at the next start" if revision != head else ""
    return f"sound, schema {revision}{behind}, {path.stat().st_size // 1024} KiB"


def _database_server(settings: Settings) -> str:
    """The PostgreSQL that LINELOOP_DATABASE names: can it be used, and is the schema ours."""
    from lineloop.kit.engines import is_postgres
    from lineloop.server.migrations import HEAD

    url = settings.database or ""
    if not is_postgres(url):
        return "LINELOOP_DATABASE names a file"
    from lineloop.kit.postgres.checking import examine

    found = examine(url)
    if found.revision is not None and found.revision > HEAD:
        raise RuntimeError(
            f"{found.where} has schema {found.revision}; this version of Lineloop knows {HEAD}"
        )
    if not found.fsync:
        raise RuntimeError(f"{found.where} runs with fsync off: a power cut loses what was accepted")
    behind = f", brought to {HEAD} at the next start" if found.revision != HEAD else ""
    return (
        f"PostgreSQL {found.version} at {found.where}, schema {found.revision or 'not created yet'}{behind}"
    )


def _head(name: Path) -> str:
    from lineloop.device import migrations as device
    from lineloop.server import migrations as server

    return device.HEAD if name == DEVICE_DATABASE else server.HEAD


def _running(data_dir: Path) -> Check:
    ready = find_running(data_dir)
    return Check(
        "running", True, f"process {ready.pid} at {ready.server_url}" if ready else "nothing runs here"
    )


def list_fault_sites(*, as_json: bool) -> int:
    """Prints every site with a sentence."""
    rows = [{"site": site.value, "sentence": sentence_of(site.value)} for site in FaultSite]
    if as_json:
        print(dumps({"fault_sites": rows}))
    else:
        for row in rows:
            print(f"{row['site']:50} {row['sentence']}")
    return Exit.DONE


def sentence_of(site: str) -> str:
    """What a site's name says in words: `device.accept.before_commit` is "device: accept, just before its
    commit".
    """
    part, *path = site.split(".")
    moment = MOMENTS.get(path[-1]) if len(path) > 1 else None
    steps = " ".join(path[:-1] if moment else path).replace("_", " ")
    return f"{part}: {steps}, {moment}" if moment else f"{part}: at {steps}"
