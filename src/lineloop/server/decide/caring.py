"""Rules of caring for a conversation: its name, whether it is archived, how far it was read. Pure.

Decides what a request makes of the stored facts. Leaves to `commit` whether the credential sees the
conversation at all.
"""

from __future__ import annotations

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import Forbidden, InvalidRequest
from lineloop.server.decide.access import Grant


@record
class Care:
    """What a root conversation is called, and since when it is archived (UTC ms), if it is."""

    name: str
    archived_at: int | None


def decide_care(
    care: Care, *, is_root: bool, name: str | None, archived: bool | None, now: int
) -> Care | None:
    """What is asked for, with None for what stays; None when it is that way already.

    A process conversation has the name of its actor and shares the fate of its root. Raises InvalidRequest.
    """
    if not is_root:
        raise InvalidRequest("a process conversation has no name and no archive of its own", pointer="")
    archived_at = care.archived_at
    if archived is not None and archived is not (archived_at is not None):
        archived_at = now if archived else None
    after = Care(care.name if name is None else name, archived_at)
    return after if after != care else None


def decide_reader(grant: Grant) -> Actor:
    """The person who read: nobody else has positions. Raises Forbidden."""
    person = grant.person
    if person is None:
        raise Forbidden("only a person has read positions")
    return person


def decide_read_up_to(asked: int, last_ordinal: int) -> int:
    """Beyond the last message there is nothing to have read."""
    return min(asked, last_ordinal)
