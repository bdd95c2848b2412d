"""Keeps what the person sees: the message, its entry in the chat app's inbox and the place in the stream.

Decides that these are one commit, and that the traffic between programs moves the place and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lineloop.device.apps import AppRegistry
from lineloop.device.commit_inbox import AppInbox, receiver_of
from lineloop.device.decide.inbox import InboxMessage
from lineloop.device.decide.person import CHAT, content_envelope, is_shown
from lineloop.device.foundation import Foundation
from lineloop.device.store import person as store
from lineloop.kit.database import Tx
from lineloop.protocol.messages import Message

MESSAGE = "device.person.message"

Notice = Callable[[Tx, str, Message], None]


class Keeper:
    """Writes the person's history. `notice` takes part in the job of every shown message."""

    def __init__(self, foundation: Foundation, inbox: AppInbox, registry: AppRegistry) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._clock = foundation.clock
        self._inbox = inbox
        self._registry = registry
        self.notice: Notice = _nobody

    async def keep(self, root_id: str, arrived: Sequence[tuple[Message, str | None]]) -> None:
        """Messages as the stream told them, each with the stream's place after it."""

        def job(tx: Tx) -> None:
            now = self._clock.now_ms()
            for message, event_id in arrived:
                if is_shown(message.purpose):
                    self._keep_in(tx, root_id, message, now)
                store.save_stream(tx, self._runtime_id, root_id, event_id, now)

        await self._foundation.write(job, MESSAGE)

    def _keep_in(self, tx: Tx, root_id: str, message: Message, now: int) -> None:
        envelope = content_envelope(message, root_id)
        store.save_message(tx, self._runtime_id, root_id, message, envelope, now)
        if message.status.ended:
            chat = receiver_of(self._registry.app_in(tx, CHAT))
            entry = InboxMessage(CHAT, root_id, message.id, envelope["type"], envelope["payload"])
            self._inbox.receive_in(tx, entry, chat)
        self.notice(tx, root_id, message)

    async def forget(self, root_id: str) -> None:
        """The server was put back to a backup: it tells again what is so, from the beginning."""
        await self._foundation.write(lambda tx: store.forget_root(tx, self._runtime_id, root_id))

    def keep_old_in(self, tx: Tx, root_id: str, message: Message) -> None:
        """A message of long ago, for the history only: nobody is told of it."""
        if is_shown(message.purpose):
            envelope = content_envelope(message, root_id)
            now = self._clock.now_ms()
            store.save_message(tx, self._runtime_id, root_id, message, envelope, now)


def _nobody(tx: Tx, root_id: str, message: Message) -> None:
    """Nobody takes note."""
