"""Where the servers of tests keep their data: in SQLite files, unless the test run chose otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from lineloop.kit.engines import Place, ensure_schema
from lineloop.server.migrations import HEAD

PACKAGE = "lineloop.server.migrations"

_template: list[bytes] = []
_chosen: list[Callable[[Path], str]] = []


def choose(make: Callable[[Path], str] | None) -> None:
    """From now on a database is `make(path)`, a URL with the server's schema behind it; None: a file again.

    The same path must give the same database.
    """
    _chosen[:] = [make] if make is not None else []


def server_database(path: Path) -> Place:
    """The database of this path, with the server's schema; made when there is none."""
    if _chosen:
        return _chosen[0](path)
    if not path.exists():
        if not _template:
            # Migrating once per test process is enough.
            with TemporaryDirectory() as folder:
                fresh = Path(folder) / "template.db"
                ensure_schema(fresh, package=PACKAGE, head=HEAD)
                _template.append(fresh.read_bytes())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_template[0])
    return path
