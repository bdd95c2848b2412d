"""Looking messages up by their words, as far as a credential sees them (spec/protocol.md §5.4)."""

from __future__ import annotations

from typing import Any

from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant, is_pattern
from lineloop.server.decide.searching import searchable_text, snippet_of
from lineloop.server.phrases import Phrase
from lineloop.server.records import Conversation
from lineloop.server.store import conversations, messages, searching
from lineloop.server.store.searching import FIRST_PAGE, Found, Wanted

SCAN_PAGE = 200
# A search that finds little of what it looks through ends its page after so many.
MAX_SCANNED = 2_000


@record
class SearchPage:
    """Hits as wire values, the newest first; `next` is the number below which it goes on, None at the end."""

    hits: list[dict[str, Any]]
    next: int | None


@record
class SearchCommand:
    """`below` is where the page before ended."""

    phrases: list[Phrase]
    reader: Grant
    within: str | None
    below: int | None
    limit: int


def search(tx: Tx, command: SearchCommand) -> SearchPage:
    """One page. May hold fewer than asked for although there is more."""
    if not command.phrases:
        return SearchPage([], None)
    seen: dict[str, Conversation | None] = {}
    hits: list[dict[str, Any]] = []
    below = command.below if command.below is not None else FIRST_PAGE
    scanned = 0
    while True:
        page = searching.find(tx, _wanted(command, below))
        for found in page:
            below = found.id
            hit = _hit(tx, command, found, seen)
            if hit is not None:
                hits.append(hit)
                if len(hits) == command.limit:
                    return SearchPage(hits, below)
        scanned += len(page)
        if len(page) < SCAN_PAGE:
            return SearchPage(hits, None)
        if scanned >= MAX_SCANNED:
            return SearchPage(hits, below)


def _wanted(command: SearchCommand, below: int) -> Wanted:
    reader = command.reader
    is_one = reader.is_person and not reader.is_admin and not is_pattern(reader.pattern)
    return Wanted(
        phrases=command.phrases,
        below=below,
        limit=SCAN_PAGE,
        within=command.within,
        member=reader.pattern if is_one else None,
    )


def _hit(
    tx: Tx, command: SearchCommand, found: Found, seen: dict[str, Conversation | None]
) -> dict[str, Any] | None:
    for name in (found.conversation_id, found.root_id):
        if name not in seen:
            seen[name] = visible_conversation(tx, name, command.reader)
    if seen[found.conversation_id] is None:
        return None
    # Who sees a process conversation only still learns what the whole is called.
    root = seen[found.root_id] or conversations.get(tx, found.root_id)
    message = messages.get(tx, found.message_id)
    if message is None or root is None:
        return None
    snippet = snippet_of(searchable_text(message.content), command.phrases)
    return {
        "message_id": message.id,
        "conversation_id": message.conversation_id,
        "root_id": message.root_id,
        "conversation_name": root.name,
        "archived": root.is_archived,
        "actor": message.actor.to_wire(),
        "purpose": str(message.purpose),
        "ordinal": message.ordinal,
        "created_at": rfc3339(message.created_at),
        "snippet": [part.to_wire() for part in snippet],
    }
