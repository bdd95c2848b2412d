"""Whom the person may address: operators and harnesses that are alive, and those met before.

Decides how often the server is asked, and that what was heard once is remembered without it. Who is alive is
the server's word (leases).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from lineloop.client.loop import Loop
from lineloop.device.decide.person import is_addressable
from lineloop.device.foundation import Foundation
from lineloop.device.store import person_conversations as store
from lineloop.device.store.person_conversations import Recipient
from lineloop.kit.clock import with_timeout
from lineloop.kit.database import Tx
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import Message

_log = structlog.get_logger(__name__)

ASK_SECONDS = 10.0
MAX_RECIPIENTS = 200


class Recipients:
    """The recipients of one person. Listeners are called on the loop after a change."""

    def __init__(self, foundation: Foundation, loop: Loop) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._clock = foundation.clock
        self._loop = loop
        self._known: dict[Actor, Recipient] = {}
        self._alive: frozenset[Actor] = frozenset()
        self._asked = False
        self._listeners: list[Callable[[], None]] = []
        self._watched = asyncio.Event()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` after every change; while somebody listens the server is asked. Returns how to
        stop.
        """
        if not self._listeners:
            # What was heard for whoever looked before says nothing about who is there now.
            self._asked = False
        self._listeners.append(listener)
        self._watched.set()
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    @property
    def known(self) -> bool:
        """Whether the server was asked since somebody looks; False also while it cannot be asked and nobody
        was met before. Until then nobody can say who is there first.
        """
        return self._asked and bool(self._listeners)

    def to_wire(self) -> list[dict[str, Any]]:
        """Who is alive first, then by name; at most MAX_RECIPIENTS."""
        lines = [
            {
                "kind": one.kind,
                "key": one.key,
                "display_name": one.display_name,
                "description": one.description,
                "online": actor in self._alive,
            }
            for actor, one in self._known.items()
        ]
        lines.sort(key=lambda one: (not one["online"], one["display_name"], one["kind"], one["key"]))
        return lines[:MAX_RECIPIENTS]

    async def load(self) -> None:
        """Those whom a former process knew."""
        for one in await self._foundation.read(lambda tx: store.recipients(tx, self._runtime_id)):
            self._known[Actor(one.kind, one.key)] = one

    def saw_in(self, tx: Tx, message: Message) -> None:
        """Takes note of who speaks, within the job that keeps the message."""
        actor = message.speaker
        if actor in self._known or not is_addressable(actor):
            return
        one = Recipient(actor.kind, actor.key, actor.key, "")
        store.save_recipient(tx, self._runtime_id, one)
        tx.after_commit(lambda: self._learn({actor: one}))

    async def run(self) -> None:
        """Asks the server for ever, while somebody listens."""
        while True:
            if not self._listeners:
                self._watched.clear()
                await self._watched.wait()
            try:
                await self._ask()
            except LoopError as error:
                _log.info("recipients_unknown", code=str(error.code))
                self._heard(frozenset(), asked=bool(self._known))
            self._watched.clear()
            try:
                await with_timeout(self._clock, ASK_SECONDS, self._watched.wait())
            except TimeoutError:
                continue

    async def _ask(self) -> None:
        answer = await self._loop.request("GET", "/v1/actors", params={"limit": 500})
        found: dict[Actor, Recipient] = {}
        for line in answer["items"]:
            actor = Actor.from_wire(line)
            if is_addressable(actor):
                name = line.get("display_name") or actor.key
                found[actor] = Recipient(actor.kind, actor.key, name, line.get("description") or "")
        news = {actor: one for actor, one in found.items() if self._known.get(actor) != one}
        if news:

            def job(tx: Tx) -> None:
                for one in news.values():
                    store.save_recipient(tx, self._runtime_id, one)

            await self._foundation.write(job)
            self._learn(news)
        self._heard(frozenset(found), asked=True)

    def _learn(self, news: dict[Actor, Recipient]) -> None:
        self._known.update(news)
        self._tell()

    def _heard(self, alive: frozenset[Actor], *, asked: bool) -> None:
        if (alive, asked) != (self._alive, self._asked):
            self._alive, self._asked = alive, asked
            self._tell()

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()
