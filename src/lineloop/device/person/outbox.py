"""What the person says and answers: kept first, then sent in order, once, until the server has it.

Decides the order of sending and what counts as a refusal for good. It speaks with the person's credential:
only the shell's own entry leads here; no agent and no app session has a way to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog

from lineloop.client.loop import Loop
from lineloop.device.foundation import Foundation
from lineloop.device.store import person_outbox as store
from lineloop.device.store.person_outbox import Saying
from lineloop.kit.backoff import Backoff
from lineloop.kit.database import Tx
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError, NotFound

# The server knows nothing of what was said yet: the credential or the version has to become right first.
_ABOUT_THE_WAY = frozenset(
    {
        ErrorCode.UNAUTHORIZED,
        ErrorCode.HOST_NOT_ALLOWED,
        ErrorCode.PROTOCOL_VERSION_UNSUPPORTED,
    }
)

_log = structlog.get_logger(__name__)

SAY = "device.person.say"
SENT = "device.person.sent"
BATCH = 100
FORGOTTEN = "forgotten"
MAX_UNSETTLED = 200

Listener = Callable[[dict[str, Any]], None]


class Outbox:
    """The person's outbox. Listeners get a saying (wire) after every change of it, on the loop."""

    def __init__(self, foundation: Foundation, loop: Loop, on_waiting: Callable[[], None]) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._clock = foundation.clock
        self._loop = loop
        self._on_waiting = on_waiting
        self._listeners: list[Listener] = []
        self._said = asyncio.Event()
        self._backoff = Backoff(0.2, 2.0, 10.0, 0.3)
        self.waiting = 0

    async def load(self) -> None:
        """Counts what a former process left, and lets `run` send it."""
        self.waiting = await self._foundation.read(lambda tx: store.count_pending(tx, self._runtime_id))
        self._said.set()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tells `listener` of every change. Returns how to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def queue(self, conversation_id: str, key: str, kind: str, body: dict[str, Any]) -> Saying:
        """Keeps a saying; the one that is kept under this key. Raises StorageUnavailable.

        A key that was used before changes nothing, unless the server refused it: then it goes again.
        """
        now = self._clock.now_ms()
        saying = Saying(self._foundation.ids.make("out"), conversation_id, key, kind, body, created_at=now)

        def job(tx: Tx) -> Saying:
            fresh = store.queue(tx, self._runtime_id, saying, now)
            kept = store.by_key(tx, self._runtime_id, conversation_id, key)
            assert kept is not None
            if fresh:
                self._told_in(tx, kept)
            return kept

        kept = await self._foundation.write(job, SAY)
        self._said.set()
        return kept

    async def forget(self, conversation_id: str | None, key: str) -> None:
        """Drops a refused saying. Raises NotFound when there is none."""

        def job(tx: Tx) -> None:
            found = store.refused(tx, self._runtime_id, key, MAX_UNSETTLED)
            chosen = [one for one in found if conversation_id in (None, one.conversation_id)]
            if not chosen:
                raise NotFound("nothing refused has this key")
            for saying in chosen:
                store.forget(tx, self._runtime_id, saying.outbox_id)
                self._told_in(tx, saying, FORGOTTEN)

        await self._foundation.write(job)

    async def settle_lost(self, root_id: str) -> None:
        """The server has told everything anew: what it had of the person and lost is refused, and may be said
        again. Nobody says it by itself: what came of it on this device has happened.
        """

        def job(tx: Tx) -> None:
            for saying in store.lost(tx, self._runtime_id, root_id, MAX_UNSETTLED):
                code = str(ErrorCode.MESSAGE_NOT_FOUND)
                store.refuse_lost(tx, self._runtime_id, saying.outbox_id, code)
                self._told_in(tx, replace(saying, refusal=code))

        await self._foundation.write(job)

    def unsettled_in(self, tx: Tx, conversation_id: str) -> list[dict[str, Any]]:
        """Sayings (wire) that are not among the kept messages, as of `tx`."""
        found = store.unsettled(tx, self._runtime_id, conversation_id, MAX_UNSETTLED)
        return [saying.to_wire() for saying in found]

    async def refusal(self, conversation_id: str, key: str) -> str | None:
        """The code with which the server refused a saying for good, or None."""
        kept = await self._foundation.read(
            lambda tx: store.by_key(tx, self._runtime_id, conversation_id, key)
        )
        return None if kept is None else kept.refusal

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Sends everything in the order it was said; when the server is away, from there on again."""
        attempt = 0
        while True:
            await self._said.wait()
            self._said.clear()
            try:
                while waiting := await self._foundation.read(
                    lambda tx: store.pending(tx, self._runtime_id, BATCH)
                ):
                    for saying in waiting:
                        await self._send(saying)
                        attempt = 0
            except LoopError as error:
                _log.info("person_outbox_waits", code=str(error.code))
                self._said.set()
                await self._clock.sleep(self._backoff.delay(attempt))
                attempt += 1

    async def _send(self, saying: Saying) -> None:
        refusal: str | None = None
        message_id: str | None = None
        try:
            message_id = await self._deliver(saying)
        except LoopError as error:
            if error.retryable or error.code in _ABOUT_THE_WAY:
                raise
            refusal = str(error.code)
            _log.warning("person_saying_refused", conversation_id=saying.conversation_id, code=refusal)
        settled = replace(saying, state="sent", refusal=refusal, message_id=message_id)

        def job(tx: Tx) -> None:
            store.settle(
                tx,
                self._runtime_id,
                saying.outbox_id,
                message_id=message_id,
                refusal=refusal,
                now_ms=self._clock.now_ms(),
            )
            self._told_in(tx, settled)

        await self._foundation.write(job, SENT)

    async def _deliver(self, saying: Saying) -> str | None:
        """The id of the message that the server made of it."""
        body = dict(saying.body)
        if saying.kind == "speak":
            path = f"/v1/conversations/{saying.conversation_id}/messages"
            return (await self._loop.request("POST", path, json={"key": saying.key, **body}))["id"]
        path = f"/v1/questions/{body.pop('question_id')}/answer"
        answer = (await self._loop.request("POST", path, json=body)).get("answer")
        return None if answer is None else answer["id"]

    def _told_in(self, tx: Tx, saying: Saying, state: str | None = None) -> None:
        waiting = store.count_pending(tx, self._runtime_id)
        wire = saying.to_wire()
        if state is not None:
            wire["state"] = state
        tx.after_commit(lambda: self._tell(wire, waiting))

    def _tell(self, wire: dict[str, Any], waiting: int) -> None:
        self.waiting = waiting
        for listener in tuple(self._listeners):
            listener(wire)
        self._on_waiting()
