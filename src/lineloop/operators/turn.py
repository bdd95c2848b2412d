"""One turn of an operator in one conversation: the verbs, already addressed.

Decides which conversation a verb means (people are spoken to in the conversation, work is done in the
workspace) and what a failure publishes. When turns start and what an exception does, the worker decides
(spec/protocol.md §5, §9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from lineloop.client import Call, Conversation, Loop, MessageHandle, Page, QuestionHandle
from lineloop.client.conversation import Content, ReadOptions, SpeakOptions
from lineloop.client.harness import PromptOptions
from lineloop.client.human import AskOptions, ConfirmOptions
from lineloop.operators.inbox import Inbox
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import error_meta
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.messages import Message, MessageStatus
from lineloop.protocol.patches import empty_content
from lineloop.protocol.resources import Participant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

POLL_LIMIT = 100


class Turn:
    """What a reconcile function works with.

    `conversation` receives input and is read by people; `workspace` is the operator's process conversation
    for its working messages; `participant` is the operator's line of the Conversation when the turn began;
    `loop` has everything else. A turn may run again with the same input at any time before its commit, so
    every write needs a key that follows from the input, such as `f"{message.id}/answer"`.
    """

    def __init__(self, loop: Loop, actor: Actor, conversation_id: str, participant: Participant) -> None:
        if participant.conversation_id is None:
            raise InvalidRequest("a turn starts only when its workspace is known")
        self.loop = loop
        self.actor = actor
        self.participant = participant
        self.conversation: Conversation = loop.conversation(conversation_id, actor=actor)
        self.workspace: Conversation = loop.conversation(participant.conversation_id, actor=actor)
        self.inbox: Inbox | None = None
        self._first: Message | None = None

    async def poll(self, *, after: int | None = None, limit: int = POLL_LIMIT) -> Inbox:
        """New input: speech, input, questions, answers and run outputs; late tool results in `.results`
        [write].

        Without `after` it begins behind what was committed; pass the last `position` to go on within a turn.
        `conversation.poll` gives everything, envelopes too. Raises LoopError.
        """
        polled = await self.conversation.poll(after, limit)
        inbox = Inbox(
            polled.messages,
            position=polled.position,
            committed=polled.committed,
            full=len(polled.messages) >= limit,
        )
        if self._first is None and inbox:
            self._first = inbox[0]
        self.inbox = inbox
        return inbox

    async def read(self, **options: Unpack[ReadOptions]) -> Page[Message]:
        """A page of the conversation's history; moves no cursor [read]. As `Conversation.read`."""
        return await self.conversation.read(**options)

    async def speak(
        self, content: Content | None = None, *, key: str, **options: Unpack[SpeakOptions]
    ) -> MessageHandle:
        """Say something in the conversation, once per key [write]. As `Conversation.speak`."""
        handle = await self.conversation.speak(content, key=key, **options)
        await self.loop.faults.areach(FaultSite.OPERATOR_TURN_SPEAK_AFTER)
        return handle

    async def commit(self, position: int) -> None:
        """Everything up to `position` is safely done and will not be polled again [write].

        A position that was already committed when this turn polled is sent nowhere. As `Conversation.commit`.
        """
        if self.inbox is not None and position <= self.inbox.committed:
            return
        await self.loop.faults.areach(FaultSite.OPERATOR_TURN_COMMIT_BEFORE)
        await self.conversation.commit(position)
        await self.loop.faults.areach(FaultSite.OPERATOR_TURN_COMMIT_AFTER)

    async def ask(self, question: str, **options: Unpack[AskOptions]) -> QuestionHandle:
        """Ask a person in the conversation [write]. As `Human.ask`."""
        options.setdefault("actor", self.actor)
        return await self.loop.human.ask(self.conversation.id, question, **options)

    async def confirm(self, question: str, **options: Unpack[ConfirmOptions]) -> QuestionHandle:
        """Ask a person for a yes or no in the conversation [write]. As `Human.confirm`."""
        options.setdefault("actor", self.actor)
        return await self.loop.human.confirm(self.conversation.id, question, **options)

    async def prompt(
        self, text: str, *, conversation_id: str | None = None, **options: Unpack[PromptOptions]
    ) -> Call:
        """Submit a run whose output appears in the workspace, or in `conversation_id` [write].

        As `Harness.prompt`.
        """
        options.setdefault("actor", self.actor)
        return await self.loop.harness.prompt(conversation_id or self.workspace.id, text, **options)

    async def fail(
        self,
        code: str,
        text: str,
        *,
        key: str | None = None,
        reply_to: str | None = None,
        target: Actor | None = None,
    ) -> MessageHandle:
        """Publish a failure: a failed message with this code and text, and nothing of its cause [write].

        Without `key` it answers the first message of this turn's inbox, under `<message id>/failure`. Commits
        nothing. Raises InvalidRequest when there is neither a key nor an input; as `speak` otherwise.
        """
        if key is None:
            if self._first is None:
                raise InvalidRequest("fail needs a key when the turn has no input", pointer="/key")
            key = f"{self._first.id}/failure"
            reply_to = reply_to or self._first.id
        content: Mapping[str, Any] = {**empty_content(), "meta": error_meta(code, text)}
        return await self.speak(
            content, key=key, reply_to=reply_to, target=target, status=MessageStatus.FAILED
        )
