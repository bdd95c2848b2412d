"""What the routes of one server share. Put together by the composition root."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import HTTPConnection

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ErrorCode, NotFound
from lineloop.server.commit import Commits
from lineloop.server.commit.participation import conversation_not_found
from lineloop.server.decide.access import Grant, Verb
from lineloop.server.http.hot import HotRoutes
from lineloop.server.http.identity import Identity
from lineloop.server.http.link import Links
from lineloop.server.http.metrics import Metrics
from lineloop.server.records import Conversation, StoredMessage
from lineloop.server.settings import ServerSettings
from lineloop.server.store import consumers, conversations, messages
from lineloop.server.wakeup.bus import Bus


@dataclass(slots=True)
class Services:
    """`epoch` names this life of the database: another one tells clients to start over."""

    settings: ServerSettings
    commits: Commits
    identity: Identity
    links: Links
    bus: Bus
    clock: Clock
    ids: Ids
    tasks: Tasks
    metrics: Metrics
    epoch: str
    hot: HotRoutes
    ready: bool = False

    async def grant(self, request: HTTPConnection, verb: Verb) -> Grant:
        return await self.identity.of_request(request, verb)

    async def visible_conversation(self, grant: Grant, conversation_id: str) -> Conversation:
        """Raises conversation_not_found, also for people who take no part in it."""

        def read(tx: Tx) -> Conversation | None:
            found = conversations.get(tx, conversation_id)
            if found is None or grant.sees_everything:
                return found
            return found if consumers.get(tx, found.root_id, grant.pattern) is not None else None

        conversation = await self.commits.read(read)
        if conversation is None:
            raise conversation_not_found(conversation_id)
        return conversation

    async def visible_message(self, grant: Grant, message_id: str) -> StoredMessage:
        """Raises message_not_found, also for people who take no part in its conversation."""

        def read(tx: Tx) -> StoredMessage | None:
            found = messages.get(tx, message_id)
            if found is None or grant.sees_everything:
                return found
            return found if consumers.get(tx, found.root_id, grant.pattern) is not None else None

        message = await self.commits.read(read)
        if message is None:
            raise NotFound("no such message", code=ErrorCode.MESSAGE_NOT_FOUND)
        return message
