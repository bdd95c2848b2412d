"""The handle of one message: its writer's only way to change it, one update after the other.

Decides sequence numbers (stored revision + 1), repetition with the same number, and that an update whose
outcome is unknown is never overtaken. What a patch does to content is decided in `lineloop.protocol.patches`
(spec/protocol.md §3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from lineloop.client.retry import Retry, is_transient
from lineloop.client.writes import Progress
from lineloop.protocol.actors import Actor
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import Conflict, LoopError, PatchInvalid
from lineloop.protocol.messages import Message, MessageStatus
from lineloop.protocol.patches import PatchOp, apply_patch

# What a speaker may emit; start and end belong to speak and end, pings to the server.
EMITTED = frozenset({PatchOp.SET, PatchOp.APPEND, PatchOp.ERROR})
TEXT_BLOCK = "text"

# Answers that judge the update itself. A 401 on the second try, say, tells nothing about the first.
_REFUSALS = frozenset({404, 409, 413, 422})


class MessageWriter(Protocol):
    """How updates reach the server; `Writes` fits."""

    async def patches(
        self, message_id: str, patches: list[dict[str, Any]], actor: Actor | None = None
    ) -> Progress: ...

    async def end(
        self, message_id: str, seq: int, status: MessageStatus, actor: Actor | None = None
    ) -> Progress: ...


class MessageHandle:
    """One spoken message. Built by `Conversation.speak`; speaking with the same key again rebuilds it.

    A message has one logical writer. The handle serialises its own callers, but two handles of one message
    collide with `sequence_conflict`.
    """

    def __init__(self, message: Message, writer: MessageWriter, retry: Retry) -> None:
        self._message = message
        self._writer = writer
        self._retry = retry
        self._one_at_a_time = asyncio.Lock()
        # An update that was sent and not confirmed: it may be stored, so nothing may take its number.
        self._unconfirmed: dict[str, Any] | None = None

    @property
    def id(self) -> str:
        """The message's id; local."""
        return self._message.id

    @property
    def value(self) -> dict[str, Any]:
        """The content as far as this handle knows it: stored, plus its own confirmed updates; local."""
        return self._message.content

    @property
    def message(self) -> Message:
        """The whole message as far as this handle knows it; local."""
        return self._message

    @property
    def status(self) -> MessageStatus:
        return self._message.status

    @property
    def revision(self) -> int:
        """The sequence number of the last confirmed update."""
        return self._message.revision

    async def emit(self, patch: Mapping[str, Any]) -> None:
        """Change the content by a `set` or `append` (or `error`) patch; a `seq` in it is passed over [write].

        Tried three times with the same number. When it still is not confirmed, only the same update may
        follow: repeat it, or leave. Raises PatchInvalid when it does not apply or its op is not an emitted
        one, Conflict `message_ended` after End, LoopError of the server otherwise. Spec: spec/protocol.md
        §3.4.
        """
        async with self._one_at_a_time:
            self._refuse_when_ended()
            body = {name: value for name, value in patch.items() if name != "seq"}
            if body.get("op") not in EMITTED:
                raise PatchInvalid("a speaker emits set, append or error", pointer="/op")
            await self._send(body)

    async def write(self, text: str) -> None:
        """Append text to the block `text`, which the first call creates [write].

        Raises as `emit`. Spec: spec/protocol.md §3.4.
        """
        async with self._one_at_a_time:
            self._refuse_when_ended()
            known = any(block.get("id") == TEXT_BLOCK for block in self.value.get("blocks", ()))
            block = {"id": TEXT_BLOCK, "content": text}
            if known:
                await self._send({"op": "append", "mask": "block.content", "block": block})
            else:
                await self._send({"op": "set", "block": {**block, "type": "text"}})

    async def end(self, status: MessageStatus | str = MessageStatus.COMPLETED) -> None:
        """End the message as `completed`, `failed` or `cancelled`; this message only [write].

        Repeating the same End is fine and sends nothing once known; an update that is still unconfirmed is
        settled first. Raises Conflict `end_conflict` when it already ended otherwise, PatchInvalid for a
        status that is no end. Spec: spec/protocol.md §3.5.
        """
        wanted = _terminal(status)
        async with self._one_at_a_time:
            if self.status.ended:
                if self.status is not wanted:
                    raise Conflict(f"the message ended {self.status}", code=ErrorCode.END_CONFLICT)
                return
            if self._unconfirmed is not None:
                await self._send(self._unconfirmed)
            seq = self.revision + 1
            await self._retry.run(lambda: self._writer.end(self.id, seq, wanted, self._message.actor))
            self._message = replace(self._message, revision=seq, status=wanted)

    def _refuse_when_ended(self) -> None:
        if self.status.ended:
            raise Conflict("the message has ended; it takes no more updates", code=ErrorCode.MESSAGE_ENDED)

    async def _send(self, body: dict[str, Any]) -> None:
        """Number, check, send and confirm one update."""
        if self._unconfirmed is not None and body != self._unconfirmed:
            raise Conflict(
                "the update before this one is not confirmed; repeat that one first",
                code=ErrorCode.SEQUENCE_CONFLICT,
            )
        seq = self.revision + 1
        patch = {**body, "seq": seq}
        content = apply_patch(self.value, patch)
        self._unconfirmed = body
        try:
            await self._retry.run(lambda: self._writer.patches(self.id, [patch], self._message.actor))
        except LoopError as error:
            if error.status in _REFUSALS and not is_transient(error):
                self._unconfirmed = None  # judged and refused: nothing was stored, the number is free
            raise
        self._unconfirmed = None
        self._message = self._message.with_content(content, seq)


def _terminal(status: MessageStatus | str) -> MessageStatus:
    try:
        wanted = MessageStatus(status)
    except ValueError as error:
        raise PatchInvalid(f"{status!r} is no status of a message", pointer="/status") from error
    if not wanted.ended:
        raise PatchInvalid("a message ends completed, failed or cancelled", pointer="/status")
    return wanted
