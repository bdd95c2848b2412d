"""`lineloop audit`: who did what on this device, read beside a running Runtime or without one.

Decides words only. A call is told as one story (who asked, receipts, result), anything else as single lines.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from lineloop.cli.chat.harmless import clean
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.device.store.stories import read_stories_of_file
from lineloop.kit.json import dumps
from lineloop.kit.records import record
from lineloop.settings import Settings

DATABASE = Path("device/device.sqlite3")
LINE = ("source", "event", "actor", "app_scope", "code", "detail")


@record
class AuditQuery:
    """What to look for; None = whatever. The newest `limit` stories and lines are shown, oldest first."""

    call_id: str | None
    app_scope: str | None
    conversation_id: str | None
    limit: int


def show_audit(settings: Settings, query: AuditQuery, *, as_json: bool) -> int:
    """Raises CommandFailed: 3 when the call or the device is unknown here."""
    stories = _read(settings.data_dir / DATABASE, query)
    if query.call_id and not stories:
        raise CommandFailed(f"nothing is known of call {query.call_id}", Exit.NOT_FOUND)
    if as_json:
        print(dumps({"items": stories}))
    else:
        for story in stories:
            print("\n".join(clean(" ".join(line.splitlines())) for line in _told(story)))
    return Exit.DONE


def _read(path: Path, query: AuditQuery) -> list[dict[str, Any]]:
    try:
        stories = read_stories_of_file(
            path,
            call_id=query.call_id,
            app_scope=query.app_scope,
            conversation_id=query.conversation_id,
        )
    except FileNotFoundError:
        raise CommandFailed("no device has run on this data directory", Exit.NOT_FOUND) from None
    except sqlite3.Error as error:
        raise CommandFailed(f"the device's database cannot be read: {error}") from error
    return stories[-query.limit :]


def _told(story: dict[str, Any]) -> list[str]:
    if "call_id" not in story or "events" not in story:
        return [_line(story)]
    head = f"{story['accepted_at']}  {story['source']}  {story['agent']}  {story['method']}  {story['state']}"
    facts = [f"call {story['call_id']} of {story['inventory_revision']}, params {dumps(story['params'])}"]
    asked_of = ("consent", "activation")
    facts += [f"{name} {dumps(story[name])}" for name in asked_of if name in story]
    facts += [f"receipt {receipt['stage']} at {receipt['created_at']}" for receipt in story["receipts"]]
    facts += [f"{name} {dumps(story[name])}" for name in ("operation", "result", "error") if name in story]
    facts += [
        f"message {one['key'].rpartition('/')[2]} {one['refusal'] if 'refusal' in one else one['state']}"
        for one in story["messages"]
        if "refusal" in one or one["state"] != "sent"
    ]
    facts += [_line(event) for event in story["events"]]
    return [head, *(f"    {fact}" for fact in facts)]


def _line(event: dict[str, Any]) -> str:
    shown = [str(event[name]) for name in LINE if event.get(name)]
    return f"{event.get('at', '')}  {'  '.join(shown)}"
