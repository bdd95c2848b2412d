"""The server's commands as async calls: one job each, one commit, coded errors.

Decides which job runs where (writer or reader) and under which fault label; what a job does is decided in its
module. `submit_…` queue a job now, so that several calls in one go share one commit and keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lineloop.kit.database import Database, DatabaseError, Tx
from lineloop.kit.faults import FaultInjected
from lineloop.kit.storage_errors import UnstorableText
from lineloop.protocol.actors import Actor
from lineloop.server.commit import accounts, asking, consuming, participation, streaming
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.speaking import SpeakAnswer, SpeakCommand, speak_in
from lineloop.server.commit.storage import storage_error
from lineloop.server.commit.streaming import AppendCommand, EndCommand, Progress
from lineloop.server.decide.questions import Reply
from lineloop.server.records import Conversation, StoredMessage
from lineloop.server.store import messages

T = TypeVar("T")


class Commits:
    """Every method raises LoopError; storage failures are coded as spec/errors.json says."""

    def __init__(self, db: Database, ctx: CommitContext) -> None:
        self.db = db
        self.ctx = ctx

    async def write(self, job: Callable[[Tx], T], label: str = "", lane: str = "") -> T:
        """Runs a job of one's own in a writer transaction."""
        return await self.settle(self.submit(job, label, lane))

    async def read(self, job: Callable[[Tx], T]) -> T:
        """Runs a job of one's own on a snapshot."""
        try:
            return await self.db.read(job)
        except (DatabaseError, UnstorableText) as error:
            raise storage_error(error) from error

    def submit(self, job: Callable[[Tx], T], label: str = "", lane: str = "") -> asyncio.Future[T]:
        """Queues a job now; give the future to `settle`. Raises LoopError when nothing can be queued."""
        try:
            return self.db.submit(job, label, lane)
        except DatabaseError as error:
            raise storage_error(error) from error

    async def settle(self, future: Awaitable[T]) -> T:
        """The job's answer, storage failures coded. Raises what the job raised."""
        try:
            return await future
        except (DatabaseError, FaultInjected, UnstorableText) as error:
            raise storage_error(error) from error

    def lane_of(self, name: str) -> str:
        """The lane of what writes to a conversation, message or Run: its root, once that is known."""
        return self.ctx.roots.of(name) or ""

    async def create_conversation(
        self, command: participation.CreateConversation
    ) -> tuple[Conversation, bool]:
        return await self.write(
            lambda tx: participation.create_conversation_in(tx, self.ctx, command), "server.conversation"
        )

    def submit_speak(self, command: SpeakCommand) -> asyncio.Future[SpeakAnswer]:
        return self.submit(
            lambda tx: speak_in(tx, self.ctx, command), "server.speak", self.lane_of(command.conversation_id)
        )

    async def speak(self, command: SpeakCommand) -> SpeakAnswer:
        return await self.settle(self.submit_speak(command))

    def submit_append(self, command: AppendCommand) -> asyncio.Future[Progress]:
        return self.submit(
            lambda tx: streaming.append_in(tx, self.ctx, command),
            "server.append",
            self.lane_of(command.message_id),
        )

    async def append(self, command: AppendCommand) -> Progress:
        return await self.settle(self.submit_append(command))

    def submit_end(self, command: EndCommand) -> asyncio.Future[Progress]:
        return self.submit(
            lambda tx: streaming.end_in(tx, self.ctx, command), "server.end", self.lane_of(command.message_id)
        )

    async def end(self, command: EndCommand) -> Progress:
        return await self.settle(self.submit_end(command))

    async def fold(self, message_id: str) -> None:
        """Brings a message's snapshot up to its log; read and folded outside of the writer."""
        folded = await self.read(lambda tx: messages.get(tx, message_id))
        if folded is not None:
            message: StoredMessage = folded
            await self.write(
                lambda tx: streaming.fold_in(tx, self.ctx, message), lane=self.lane_of(message_id)
            )

    async def poll(self, command: consuming.PollCommand) -> consuming.PollAnswer:
        answer = await self.read(lambda tx: consuming.read_inbox(tx, command))
        if answer.position > max(answer.recorded, command.after or 0):
            await self.write(
                lambda tx: consuming.record_position_in(
                    tx, self.ctx, command.conversation_id, command.actor, answer.position
                ),
                "server.poll",
                self.lane_of(command.conversation_id),
            )
        return answer

    def submit_commit(self, command: consuming.CommitCommand) -> asyncio.Future[None]:
        return self.submit(
            lambda tx: consuming.commit_in(tx, self.ctx, command),
            "server.commit_position",
            self.lane_of(command.conversation_id),
        )

    async def commit(self, command: consuming.CommitCommand) -> None:
        await self.settle(self.submit_commit(command))

    async def open_question(self, command: asking.OpenQuestion) -> asking.QuestionAnswer:
        return await self.write(
            lambda tx: asking.open_question_in(tx, self.ctx, command),
            "server.ask",
            self.lane_of(command.conversation_id),
        )

    async def get_question(self, question_id: str) -> asking.QuestionAnswer:
        """Reads; writes only when the question's time is up."""
        _, facts = await self.read(lambda tx: asking.read_question(tx, question_id))
        if facts.is_open and self.ctx.clock.now_ms() >= facts.deadline_at:
            return await self.write(
                lambda tx: asking.get_question_in(tx, self.ctx, question_id),
                "server.timeout",
                self.lane_of(question_id),
            )
        return asking.QuestionAnswer(asking.to_question(question_id, facts))

    async def answer(self, question_id: str, reply: Reply) -> asking.QuestionAnswer:
        answer_id = self.ctx.ids.make("msg")
        answer = await self.write(
            lambda tx: asking.answer_in(tx, self.ctx, question_id, reply, answer_id),
            "server.answer",
            self.lane_of(question_id),
        )
        return asking.refuse_late(answer)

    async def close_due_questions(self) -> int:
        return await self.write(lambda tx: asking.close_due_in(tx, self.ctx), "server.timeout")

    async def activate_device(self, user_key: str, device_key: str) -> bool:
        return await self.write(
            lambda tx: participation.activate_device_in(tx, self.ctx, user_key, device_key)
        )

    async def register(
        self, actor: Actor, *, display_name: str, description: str, lease_ms: int
    ) -> accounts.ActorRow:
        return await self.write(
            lambda tx: accounts.register_in(
                tx,
                self.ctx,
                actor,
                display_name=display_name,
                description=description,
                lease_ms=lease_ms,
            )
        )
