"""What a viewer may see for as long as it looks (spec/protocol.md §8.1, §8.4).

Decides when the right to look is asked for anew: somebody was taken out of the conversation, on this server
or on another one, where the sweep tells. Leaves the right itself to `commit.visibility`.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.server.commit import Commits
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant
from lineloop.server.store import conversations
from lineloop.server.wakeup.bus import Hint, ParticipantsChanged, RootSeen


class Sight:
    """Of `grant` on one conversation, and on the others under the same root."""

    def __init__(self, commits: Commits, root_id: str, conversation_id: str, grant: Grant) -> None:
        self._commits = commits
        self._root_id = root_id
        self._conversation_id = conversation_id
        self._grant = grant
        self._shown: dict[str, bool] = {}
        self._membership = -1
        self._due = True

    def hear(self, hint: Hint) -> bool:
        """Whether there is something to ask: then `lasts` should be, before anything more is shown."""
        if isinstance(hint, ParticipantsChanged):
            self._shown.clear()
            self._due = self._due or bool(hint.left)
        elif isinstance(hint, RootSeen):
            self._due = self._due or hint.membership != self._membership
        return self._due

    async def lasts(self) -> bool:
        """Whether the viewer still sees the conversation that it came for. Reads only when that is due."""
        if not self._due:
            return True
        self._due = False

        def read(tx: Tx) -> tuple[int, bool]:
            root = conversations.get(tx, self._root_id)
            seen = visible_conversation(tx, self._conversation_id, self._grant) is not None
            return root.membership if root is not None else 0, seen

        self._membership, seen = await self._commits.read(read)
        self._shown = {self._conversation_id: seen}
        return seen

    async def shows(self, conversation_id: str) -> bool:
        """Whether the viewer sees this one of the root's conversations."""
        if self._grant.is_admin:
            return True
        known = self._shown.get(conversation_id)
        if known is None:
            known = await self._commits.read(
                lambda tx: visible_conversation(tx, conversation_id, self._grant) is not None
            )
            self._shown[conversation_id] = known
        return known
