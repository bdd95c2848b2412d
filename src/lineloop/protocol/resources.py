"""The Conversation resource and what operators read from it (spec/protocol.md §9).

Pure readers over plain resource dictionaries (camelCase inside spec and status, as Kubernetes wants). Decides
who is woken by which change; writing the resource is the server's work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.actors import Actor

GROUP = "loop.lineloop.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CONVERSATION_KIND = "Conversation"
CONVERSATIONS = "conversations"

Resource = Mapping[str, Any]


@record
class Participant:
    """One actor's line of a Conversation: spec and status merged. All positions are offsets.

    `conversation_id` is the actor's process conversation, None until it is known.
    """

    actor: Actor
    conversation_id: str | None
    end_offset: int
    position: int
    committed: int

    @property
    def has_backlog(self) -> bool:
        """Whether something deliverable is not committed yet."""
        return self.end_offset > self.committed


def conversation_spec(
    *, name: str, owner: Actor, parent_id: str | None, participants: Sequence[Participant]
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "name": name,
        "owner": owner.to_wire(),
        "participants": [
            {
                "kind": one.actor.kind,
                "key": one.actor.key,
                "conversationID": one.conversation_id or "",
                "endOffset": one.end_offset,
            }
            for one in participants
        ],
    }
    if parent_id is not None:
        spec["parentID"] = parent_id
    return spec


def conversation_status(participants: Sequence[Participant]) -> dict[str, Any]:
    return {
        "consumers": [
            {
                "kind": one.actor.kind,
                "key": one.actor.key,
                "position": one.position,
                "committed": one.committed,
            }
            for one in participants
        ]
    }


def participant(conversation: Resource, actor: Actor) -> Participant | None:
    """The actor's line, or None when it takes no part. Reads only what it is given."""
    spec_line = _line(conversation, "spec", "participants", actor)
    if spec_line is None:
        return None
    status_line = _line(conversation, "status", "consumers", actor) or {}
    return Participant(
        actor=actor,
        conversation_id=spec_line.get("conversationID") or None,
        end_offset=int(spec_line.get("endOffset") or 0),
        position=int(status_line.get("position") or 0),
        committed=int(status_line.get("committed") or 0),
    )


def conversation_predicate(actor: Actor) -> Callable[[Resource | None, Resource], bool]:
    """Whether a change of a Conversation should wake `actor` (§9.3).

    Wakes on: its end offset growing, its own commit that leaves a backlog, its process conversation becoming
    known with a backlog, and first sight (old is None) with a backlog. Never on position alone or on others'
    lines.
    """

    def wakes(old: Resource | None, new: Resource) -> bool:
        now = participant(new, actor)
        if now is None or not now.has_backlog:
            return False
        before = participant(old, actor) if old is not None else None
        if before is None:
            return True
        return (
            now.end_offset > before.end_offset
            or now.committed > before.committed
            or (now.conversation_id is not None and before.conversation_id is None)
        )

    return wakes


def _line(conversation: Resource, part: str, field: str, actor: Actor) -> Mapping[str, Any] | None:
    lines: Sequence[Mapping[str, Any]] = (conversation.get(part) or {}).get(field) or ()
    return next((one for one in lines if one.get("kind") == actor.kind and one.get("key") == actor.key), None)
