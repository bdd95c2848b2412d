"""What the routes of one server share. Put together by the composition root."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.errors import ErrorCode, NotFound
from lineloop.protocol.sse import DRAIN_EVENT
from lineloop.server.commit import Commits
from lineloop.server.commit.participation import conversation_not_found
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant, Verb, credential_of_person
from lineloop.server.http.hot import HotRoutes
from lineloop.server.http.identity import Identity
from lineloop.server.http.link import Links
from lineloop.server.http.metrics import Metrics
from lineloop.server.http.refusals import Refusals
from lineloop.server.http.streamed import OpenStreams, StreamedResponse
from lineloop.server.records import Conversation, StoredMessage
from lineloop.server.settings import ServerSettings
from lineloop.server.store import messages
from lineloop.server.wakeup.bus import Bus
from lineloop.server.wakeup.relay import Relay

EVENT_STREAM = "text/event-stream"
EPOCH_HEADER = "x-lineloop-epoch"


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
    streams: OpenStreams
    refusals: Refusals
    ready: bool = False
    relay: Relay | None = None

    async def grant(self, request: HTTPConnection, verb: Verb) -> Grant:
        return await self.identity.of_request(request, verb)

    def end_of_token(self, token_id: str) -> None:
        """The token was revoked: what it allowed, and what goes on because of it, ends in this process."""
        self.identity.revoke(token_id)
        self.links.end_of_token(token_id)
        self.streams.end_of(token_id)

    def end_of_person(self, key: str) -> None:
        """The person's cookie counts no more: what goes on because of it ends in this process."""
        self.streams.end_of(credential_of_person(key))

    def streamed(
        self,
        grant: Grant,
        parts: AsyncIterator[str] | AsyncIterator[bytes],
        *,
        media_type: str | None,
        headers: Mapping[str, str] | None = None,
    ) -> StreamedResponse:
        """An answer that goes on for as long as the credential that asked for it is valid.

        Raises Unauthorized when that is over already.
        """
        self.identity.require_valid(grant)
        return StreamedResponse(
            parts,
            headers=headers,
            media_type=media_type,
            streams=self.streams,
            credential=grant.credential,
        )

    def event_stream(self, grant: Grant, events: AsyncIterator[str]) -> StreamedResponse:
        """As `streamed`, for server-sent events; a server that stops says at last when to come again."""
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", EPOCH_HEADER: self.epoch}
        return self.streamed(grant, self._with_farewell(events), media_type=EVENT_STREAM, headers=headers)

    async def _with_farewell(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        try:
            async for text in events:
                yield text
            if not self.ready:
                retry_ms = self.settings.drain_retry_ms
                yield f'event: {DRAIN_EVENT}\nretry: {retry_ms}\ndata: {{"retry_ms":{retry_ms}}}\n\n'
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    async def visible_conversation(self, grant: Grant, conversation_id: str) -> Conversation:
        """Raises conversation_not_found, also for those who take no part in it."""
        conversation = await self.commits.read(lambda tx: visible_conversation(tx, conversation_id, grant))
        if conversation is None:
            raise conversation_not_found(conversation_id)
        return conversation

    async def visible_message(self, grant: Grant, message_id: str) -> StoredMessage:
        """Raises message_not_found, also for those who take no part in its conversation."""

        def read(tx: Tx) -> StoredMessage | None:
            found = messages.get(tx, message_id)
            if found is None or visible_conversation(tx, found.conversation_id, grant) is None:
                return None
            return found

        message = await self.commits.read(read)
        if message is None:
            raise NotFound("no such message", code=ErrorCode.MESSAGE_NOT_FOUND)
        return message
