"""Who sees and enters which conversation (spec/protocol.md §8.1). Reading parts of a transaction.

A credential sees the root conversations in which an actor takes part that it may be, or another role of its
operator. A process conversation belongs to its actor, to whom it was spoken to there and to the people of its
root. What is not seen does not exist: the answer is the same as for an id that nobody ever made.
"""

from __future__ import annotations

from collections.abc import Callable

from lineloop.kit.database import Tx
from lineloop.protocol.actors import Actor
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.participation import conversation_not_found
from lineloop.server.decide.access import Grant, is_pattern
from lineloop.server.records import Conversation
from lineloop.server.store import consumers, conversations

SCAN_PAGE = 200


def takes_part(tx: Tx, root_id: str, grant: Grant) -> bool:
    """Whether somebody takes part in the root conversation for whom the credential stands."""
    if grant.is_admin or consumers.get(tx, root_id, grant.pattern) is not None:
        return True
    return any(grant.sees_as(one.actor) for one in consumers.of_conversation(tx, root_id))


def sees(tx: Tx, conversation: Conversation, grant: Grant) -> bool:
    """Whether the conversation exists for the credential."""
    if takes_part(tx, conversation.id, grant):
        return True
    if conversation.is_root or not (grant.is_person or grant.sees_as(conversation.owner)):
        return False
    return takes_part(tx, conversation.root_id, grant)


def visible_conversation(tx: Tx, conversation_id: str, grant: Grant) -> Conversation | None:
    """None when there is none, and when there is none for this credential."""
    found = conversations.get(tx, conversation_id)
    return found if found is not None and sees(tx, found, grant) else None


def visible_roots(
    tx: Tx, grant: Grant, *, after: str, limit: int, member: Actor | None, archived: bool | None = None
) -> list[Conversation]:
    """Root conversations by id that the credential sees; with `member` those in which it takes part, too."""
    if grant.is_admin:
        return conversations.roots(tx, after=after, limit=limit, member=member, archived=archived)
    own = grant.pattern
    if member is None and not is_pattern(own):
        key = own.operator_key
        if key is None:
            return conversations.roots(tx, after=after, limit=limit, member=own, archived=archived)
        return conversations.roots_of_operator(tx, key, after=after, limit=limit, archived=archived)
    return _scanned(
        lambda start: conversations.roots(tx, after=start, limit=SCAN_PAGE, member=member, archived=archived),
        lambda one: takes_part(tx, one.id, grant),
        after,
        limit,
    )


def visible_children(
    tx: Tx, grant: Grant, parent_id: str, *, after: str, limit: int, actor: Actor | None
) -> list[Conversation]:
    """Process conversations by id that the credential sees; an unknown parent has none."""
    if not takes_part(tx, parent_id, grant):
        return []
    return _scanned(
        lambda start: conversations.children(tx, parent_id, after=start, limit=SCAN_PAGE, actor=actor),
        lambda one: grant.is_person or grant.sees_as(one.owner),
        after,
        limit,
    )


def _scanned(
    page_after: Callable[[str], list[Conversation]],
    is_seen: Callable[[Conversation], bool],
    after: str,
    limit: int,
) -> list[Conversation]:
    """The first `limit` that are seen, read page by page."""
    found: list[Conversation] = []
    while len(found) < limit:
        page = page_after(after)
        found += [one for one in page if is_seen(one)]
        if len(page) < SCAN_PAGE:
            break
        after = page[-1].id
    return found[:limit]


def require_entry(tx: Tx, ctx: CommitContext, conversation: Conversation, actor: Actor, grant: Grant) -> None:
    """Who speaks must see the conversation. Raises conversation_not_found."""
    if ctx.members.knows(conversation, actor):
        return
    if not sees(tx, conversation, grant):
        raise conversation_not_found(conversation.id)
