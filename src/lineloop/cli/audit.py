"""`lineloop audit`: who did what on this device, read beside a running Runtime or without one.

Reads only, through a connection of its own; which rows there are was decided when they were committed.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.device.store.audit import AuditQuery, read_audit
from lineloop.kit.database import Tx
from lineloop.kit.json import dumps
from lineloop.settings import Settings

__all__ = ["AuditQuery", "show_audit"]

DATABASE = Path("device/device.sqlite3")
SHOWN = ("source", "event", "actor", "app_scope", "inventory_revision", "code")


def show_audit(settings: Settings, query: AuditQuery, *, as_json: bool) -> int:
    """Prints matching rows, oldest first. Raises CommandFailed: 3 when a call or the device is unknown
    here.
    """
    path = settings.data_dir / DATABASE
    if not path.exists():
        raise CommandFailed(f"no device has run on {settings.data_dir}", Exit.NOT_FOUND)
    rows = _read(path, query)
    if query.call_id and not rows:
        raise CommandFailed(f"nothing is known of call {query.call_id}", Exit.NOT_FOUND)
    if as_json:
        print(dumps({"items": rows}))
    else:
        for row in rows:
            print(_line(row))
    return Exit.DONE


def _read(path: Path, query: AuditQuery) -> list[dict[str, Any]]:
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5.0)) as connection:
            connection.row_factory = sqlite3.Row
            return read_audit(Tx(connection), query)
    except sqlite3.Error as error:
        raise CommandFailed(f"the device's database cannot be read: {error}") from error


def _line(row: dict[str, Any]) -> str:
    facts = [str(row[name]) for name in SHOWN if row.get(name)]
    detail = f"  {dumps(row['detail'])}" if row.get("detail") else ""
    call = f"  {row['call_id']}" if row.get("call_id") else ""
    return f"{row['at']}  {'  '.join(facts)}{call}{detail}"
