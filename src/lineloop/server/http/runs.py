"""Routes of Runs: submit, look, cancel, ledger, stream (spec/protocol.md §6.2).

Decides who may submit and see a Run, and what a viewer of one Run is told. The adapter is never touched here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from lineloop.harness.model_targets import harness_of
from lineloop.kit import json
from lineloop.kit.clock import rfc3339, with_timeout
from lineloop.kit.database import Tx
from lineloop.protocol.actors import HARNESS, USER, Actor
from lineloop.protocol.errors import ErrorCode, InvalidRequest, LoopError
from lineloop.protocol.messages import MessageStatus
from lineloop.protocol.requests import RunBody, parse_body
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.commit_run_ends import run_not_found
from lineloop.server.commit_run_jobs import SubmitRun
from lineloop.server.commit_runs import RunCommits, to_run
from lineloop.server.decide.access import Grant, Verb
from lineloop.server.decide.runs import request_digest
from lineloop.server.http.bodies import raw_body
from lineloop.server.http.documents import Document, document
from lineloop.server.http.lists import PageQuery, json_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import EVENT_STREAM, Services
from lineloop.server.http.sight import Sight
from lineloop.server.records import StoredMessage
from lineloop.server.run_records import RunRow
from lineloop.server.store import conversations, messages
from lineloop.server.wakeup.bus import Hint, MessageChanged, PatchesAppended, Stopping

_MISSING = (ErrorCode.RUN_NOT_FOUND,)
_SUBMIT_ERRORS = (
    ErrorCode.CONVERSATION_NOT_FOUND,
    ErrorCode.NOT_PARTICIPANT,
    ErrorCode.KEY_CONFLICT,
    ErrorCode.HARNESS_TARGET_UNKNOWN,
    ErrorCode.HARNESS_CAPACITY_EXCEEDED,
)
MAX_QUEUED_PATCHES = 1_000
MAX_QUEUED_BYTES = 2 * 1024 * 1024
# Some readers take these three for line ends, which would tear an event apart.
_LINE_ENDS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class RunDocument(Document):
    """A Run. `result` is there after success, `error` after any other end."""

    id: str
    message_id: str
    conversation_id: str
    phase: str
    deadline_at: str
    error: dict[str, Any] | None
    result: dict[str, Any] | None = None


class LedgerEntryDocument(Document):
    seq: int
    attempt: int
    type: str
    key: str | None
    native_id: str | None
    at: str
    facts: dict[str, Any]
    content: Any


class LedgerDocument(Document):
    items: list[LedgerEntryDocument]
    next: str | None


def run_routes(services: Services, runs: RunCommits) -> Routes:
    router = Routes(prefix="/v1/harness/runs", tags=["runs"])

    @router.post(
        "", openapi_extra=document(RunDocument, body=RunBody, statuses=(202,), errors=_SUBMIT_ERRORS)
    )
    async def submit(request: Request) -> Response:
        """202: the Run and its output message are stored. The same key answers with the same Run."""
        grant = await services.grant(request, Verb.PROMPT)
        body = parse_body(RunBody, await raw_body(request))
        await services.visible_conversation(grant, body.conversation_id)
        run, _ = await runs.submit(_submit_command(grant, body, services))
        return json_response(_to_wire(run), 202)

    @router.get("/{run_id}", openapi_extra=document(RunDocument, errors=_MISSING))
    async def get_run(request: Request, run_id: str) -> Response:
        grant = await services.grant(request, Verb.READ)
        return json_response(_to_wire(await _visible(services, runs, grant, run_id)))

    @router.post("/{run_id}/cancel", openapi_extra=document(RunDocument, statuses=(202,), errors=_MISSING))
    async def cancel(request: Request, run_id: str) -> Response:
        """202: the wish is stored; a Run that nobody drives has already ended. Repeating is harmless."""
        grant = await services.grant(request, Verb.PROMPT)
        await _visible(services, runs, grant, run_id)
        return json_response(_to_wire(await runs.cancel(run_id)), 202)

    @router.get("/{run_id}/ledger", openapi_extra=document(LedgerDocument, errors=_MISSING), query=PageQuery)
    async def read_ledger(request: Request, run_id: str, query: PageQuery) -> Response:
        """What the Run did, in order of `seq`."""
        after, limit = query.after, query.limit
        grant = await services.grant(request, Verb.READ)
        await _visible(services, runs, grant, run_id)
        if after and not after.isdecimal():
            raise InvalidRequest("after is a seq", pointer="/after")
        found = await runs.ledger(run_id, after=int(after or 0), limit=limit + 1)
        items = [entry.to_wire(rfc3339(entry.at)) for entry in found[:limit]]
        cursor = str(found[limit - 1].seq) if len(found) > limit else None
        return json_response({"items": items, "next": cursor})

    @router.get(
        "/{run_id}/stream",
        openapi_extra=document(None, errors=_MISSING, media_types=(EVENT_STREAM,)),
    )
    async def stream_run(request: Request, run_id: str) -> Response:
        """Server-sent events `message` and `patch` of the output, until the ended message."""
        grant = await services.grant(request, Verb.READ)
        run = await _visible(services, runs, grant, run_id)
        return services.event_stream(grant, RunViewer(services, run, grant).events())

    return router


def _submit_command(grant: Grant, body: RunBody, services: Services) -> SubmitRun:
    """Raises Forbidden when the credential may not act as the named actor."""
    prompter = grant.actor(body.actor)
    facts = body.model_dump(mode="json", exclude={"idempotency_key", "conversation_id", "actor", "recipient"})
    identity = {**facts, "recipient": body.recipient.to_wire() if body.recipient else None}
    request = {name: facts[name] for name in ("text", "history", "tools", "output_schema", "meta")}
    return SubmitRun(
        run_id=services.ids.make("run"),
        message_id=services.ids.make("msg"),
        conversation_id=body.conversation_id,
        prompter=prompter,
        actor=body.actor or Actor(HARNESS, harness_of(body.target).rstrip(":")),
        recipient=body.recipient,
        idempotency_key=body.idempotency_key,
        effect_key=body.effect_key,
        target=body.target,
        request=request,
        digest=request_digest(identity),
        timeout_ms=body.timeout_ms,
        speaker=grant,
    )


async def _visible(services: Services, runs: RunCommits, grant: Grant, run_id: str) -> RunRow:
    """Raises run_not_found, also for everybody who does not see it."""
    run = await runs.get(run_id)
    if not await services.commits.read(lambda tx: _sees(tx, run, grant)):
        raise run_not_found(run_id)
    return run


def _sees(tx: Tx, run: RunRow, grant: Grant) -> bool:
    """A Run is seen by who prompted it, in whatever role, for as long as it sees the conversation, and by the
    person whose conversation it is in.
    """
    if grant.is_admin:
        return True
    if grant.sees_as(run.prompter):
        return visible_conversation(tx, run.conversation_id, grant) is not None
    root = conversations.get(tx, run.root_id)
    return root is not None and root.owner.kind == USER and grant.allows(root.owner)


def _to_wire(run: RunRow) -> dict[str, Any]:
    return {
        **to_run(run).to_wire(),
        "target": run.target,
        "effect_key": run.effect_key,
        "idempotency_key": run.idempotency_key,
    }


class RunViewer:
    """One viewer of one Run's output: the whole message, then its patches, at last the ended message.

    Listens before it reads. A hint that is lost, or one too many, costs a whole message and nothing else.
    """

    def __init__(self, services: Services, run: RunRow, grant: Grant) -> None:
        self._services = services
        self._run = run
        self._sight = Sight(services.commits, run.root_id, run.conversation_id, grant)
        self._patches: list[PatchesAppended] = []
        self._whole = True
        self._revision = 0
        self._change = 0
        self._wake = asyncio.Event()

    async def events(self) -> AsyncIterator[str]:
        """SSE text until the Run has ended, the viewer goes, or the server stops."""
        stop = self._services.bus.listen_root(self._run.root_id, self._hear)
        try:
            while self._services.ready and await self._sight.lasts():
                self._wake.clear()
                if self._whole:
                    self._whole = False
                    self._patches.clear()
                    message = await self._read()
                    self._revision, self._change = message.revision, message.change
                    yield _event("message", message.change, f'{{"message":{message.to_json()}}}')
                    if message.status is not MessageStatus.STREAMING:
                        return
                    continue
                if text := self._taken():
                    yield text
                    continue
                if self._whole:
                    continue
                async for text in self._waited():
                    yield text
        except LoopError:
            # The storage is gone: the viewer comes back and is told by the route.
            return
        finally:
            stop()

    async def _waited(self) -> AsyncIterator[str]:
        """Wait for a hint; without one, look whether there is news and give a sign of life."""
        services = self._services
        try:
            await with_timeout(services.clock, services.settings.heartbeat_seconds, self._wake.wait())
        except TimeoutError:
            head = await services.commits.read(lambda tx: messages.head(tx, self._run.message_id))
            self._whole = head is not None and (head.revision > self._revision or head.status.ended)
            yield _event("ping", self._change, json.dumps({"ordinals": {}}))

    async def _read(self) -> StoredMessage:
        message = await self._services.commits.read(lambda tx: messages.get(tx, self._run.message_id))
        assert message is not None
        return message

    def _hear(self, hint: Hint) -> None:
        if self._sight.hear(hint) or isinstance(hint, Stopping):
            self._wake.set()
        if not isinstance(hint, MessageChanged | PatchesAppended) or hint.message_id != self._run.message_id:
            return
        if isinstance(hint, MessageChanged) or self._is_full(hint):
            self._whole = True
        else:
            self._patches.append(hint)
        self._wake.set()

    def _is_full(self, hint: PatchesAppended) -> bool:
        waiting = sum(one.weight for one in self._patches) + hint.weight
        return len(self._patches) >= MAX_QUEUED_PATCHES or waiting > MAX_QUEUED_BYTES

    def _taken(self) -> str:
        """The patches that follow what the viewer knows; a gap asks for the whole message."""
        parts: list[str] = []
        for hint in self._patches:
            if hint.first > self._revision + 1:
                self._whole = True
                break
            for seq, patch in enumerate(hint.patches, hint.first):
                if seq > self._revision:
                    self._revision = seq
                    data = f'{{"message_id":"{hint.message_id}","patch":{patch}}}'
                    parts.append(_event("patch", self._change, data))
        self._patches.clear()
        return "".join(parts)


def _event(name: str, change: int, data: str) -> str:
    if not data.isascii():
        data = data.translate(_LINE_ENDS)
    return f"event: {name}\nid: {change}\ndata: {data}\n\n"
