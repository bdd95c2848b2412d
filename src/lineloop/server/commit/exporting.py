"""Reading a conversation for an export: page by page, each a short read (spec/protocol.md §5.5).

What is exported is what had been said when it began; a stream that is still open is exported as it stands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Tx
from lineloop.protocol.messages import Purpose
from lineloop.server.commit.commits import Commits
from lineloop.server.commit.participation import conversation_not_found
from lineloop.server.commit.visibility import sees, visible_children
from lineloop.server.decide.access import Grant
from lineloop.server.decide.exporting import Pieces
from lineloop.server.records import Conversation, StoredMessage
from lineloop.server.store import history
from lineloop.server.store.history import HistoryFilter

PAGE = 20
CHILDREN_PAGE = 100
_READABLE = tuple(purpose for purpose in Purpose if not purpose.carries_envelope)


async def exported(
    commits: Commits, conversation: Conversation, grant: Grant, pieces: Pieces
) -> AsyncIterator[str]:
    """The document in pieces. Of a root conversation with the process conversations that one sees, by id."""
    yield pieces.begin(_head(conversation))
    async for text in _messages(commits, conversation, grant, pieces):
        yield text
    yield pieces.processes()
    first, after = True, ""
    while conversation.is_root:

        def read(tx: Tx, after: str = after) -> list[Conversation]:
            return visible_children(tx, grant, conversation.id, after=after, limit=CHILDREN_PAGE, actor=None)

        page = await commits.read(read)
        for child in page:
            yield pieces.begin_process(_head(child), first=first)
            async for text in _messages(commits, child, grant, pieces):
                yield text
            yield pieces.end_process()
            first = False
        if len(page) < CHILDREN_PAGE:
            break
        after = page[-1].id
    yield pieces.end()


async def _messages(
    commits: Commits, conversation: Conversation, grant: Grant, pieces: Pieces
) -> AsyncIterator[str]:
    """Raises conversation_not_found when the reader is taken out of it in the middle."""
    after, first = 0, True
    while True:

        def read(tx: Tx, after: int = after) -> list[StoredMessage]:
            if not sees(tx, conversation, grant):
                raise conversation_not_found(conversation.id)
            return history.page(
                tx,
                HistoryFilter(
                    conversation.id,
                    after=after,
                    before=conversation.last_ordinal + 1,
                    limit=PAGE,
                    purposes=_READABLE,
                ),
            )

        page = await commits.read(read)
        for message in page:
            yield pieces.message(message.to_wire(), message.to_json(), first=first)
            first = False
        if len(page) < PAGE:
            return
        after = page[-1].ordinal


def _head(conversation: Conversation) -> dict[str, Any]:
    archived_at = conversation.archived_at
    return {
        "id": conversation.id,
        "name": conversation.name,
        "owner": conversation.owner.to_wire(),
        "parent_id": conversation.parent_id,
        "created_at": rfc3339(conversation.created_at),
        "archived_at": rfc3339(archived_at) if archived_at is not None else None,
    }
