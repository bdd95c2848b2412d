"""Rules of who may bring somebody into a conversation and take somebody out (spec/protocol.md §2.9). Pure.

Decides by the owner, the credential and who is named. Leaves to `commit` what is stored and what ends.
"""

from __future__ import annotations

from lineloop.protocol.actors import OPERATOR, RUNTIME, Actor
from lineloop.protocol.errors import ErrorCode, Forbidden, InvalidRequest
from lineloop.server.decide.access import Grant, is_pattern
from lineloop.server.decide.messages import is_execution


def decide_invitation(actor: Actor, by: Grant, *, owner: Actor, is_root: bool) -> None:
    """Only the owner invites, and into the root conversation. Raises InvalidRequest, Forbidden."""
    _decide_place(actor, is_root=is_root)
    if not by.allows(owner):
        raise Forbidden("only the owner of a conversation invites")


def decide_removal(actor: Actor, by: Grant, *, owner: Actor, is_root: bool) -> None:
    """The owner takes anybody out, and everybody may leave, but the owner stays.

    A device takes part for its person. Raises InvalidRequest, Forbidden.
    """
    _decide_place(actor, is_root=is_root)
    if goes_with(owner, actor):
        raise InvalidRequest("the owner stays in a conversation", pointer="/key")
    if actor.kind == RUNTIME:
        raise InvalidRequest("a device goes with its person", pointer="/kind")
    if not (by.allows(owner) or by.allows(actor)):
        raise Forbidden("only the owner of a conversation takes others out")


def decide_naming(actor: Actor, by: Grant | None, *, owner: Actor, is_beside: bool) -> None:
    """Whether who speaks or asks may bring in the `actor` that it names and that takes no part yet.

    The owner may, and the server itself (None). Anybody else names who is there, an execution, itself, and
    another role of an operator that is there (`is_beside`). Raises not_participant.
    """
    if by is None or is_beside or by.allows(owner) or by.allows(actor) or is_execution(actor.kind):
        return
    raise Forbidden(
        f"{actor} does not take part in this conversation; its owner invites",
        code=ErrorCode.NOT_PARTICIPANT,
    )


def goes_with(actor: Actor, named: Actor) -> bool:
    """Whether `actor` is who was named, or a role of the operator that was."""
    return actor == named or (named.kind == OPERATOR and actor.operator_key == named.key)


def _decide_place(actor: Actor, *, is_root: bool) -> None:
    if not is_root:
        raise InvalidRequest("a process conversation has no participants of its own", pointer="")
    if is_pattern(actor):
        raise InvalidRequest("who takes part is one actor and no pattern", pointer="/key")
