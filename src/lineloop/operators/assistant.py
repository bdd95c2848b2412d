"""The assistant: a person's message becomes one Run with the device's tools, its end becomes one answer.

Decides what is answered when, under which keys, and what may be committed. A Run that waits for a person or
a tool holds up nobody: every turn looks at all open input again, so `stop` is heard while a timer starts or
runs. Words are the harness's; how an operation ended later is told by rule in assistant_words.py. Keys:
`<input>/run`, `<input>/answer`, `<call id>/ended`; with them nothing is said twice, whenever the process
dies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineloop.client import Call
from lineloop.control.controller import Result
from lineloop.kit import json
from lineloop.operators.assistant_words import (
    OperationStory,
    operation_story,
    stopped_text,
    tell_late_result,
)
from lineloop.operators.inbox import LateResult
from lineloop.operators.operator import Operator
from lineloop.operators.turn import Turn
from lineloop.protocol.actors import OPERATOR, USER
from lineloop.protocol.content import error_meta, text_content, writes_markdown
from lineloop.protocol.errors import CapacityExceeded, Conflict, LoopError, NotFound
from lineloop.protocol.messages import Message, MessageStatus, Purpose
from lineloop.protocol.runs import Run, RunPhase

ASSISTANT_KEY = "assistant"
# What people read before they say anything. A demo says that it is one.
DESCRIPTIONS = {"demo": "demo, not AI: it matches your words to the tools on your device"}
HISTORY_MESSAGES = 20
TOOLS = ("inventory", "human")
# A finished Run wakes the turn; this only backs that up.
RECHECK_SECONDS = 5.0
CAPACITY_RETRY_SECONDS = 1.0
_ENDED_BY_AGENT = frozenset({"interrupted_by_agent", "cancelled_by_agent"})


@dataclass(slots=True)
class _Progress:
    """What this turn found: where the safely done prefix ends, and how soon to look again."""

    safe_until: int | None = None
    again_in_seconds: float | None = None

    def hold(self, offset: int, again_in_seconds: float) -> None:
        """The item at `offset` is not done: nothing from there on may be committed."""
        if self.safe_until is None:
            self.safe_until = offset - 1
        if self.again_in_seconds is None or again_in_seconds < self.again_in_seconds:
            self.again_in_seconds = again_in_seconds


@dataclass(slots=True)
class Assistant:
    """The operator's rules. `target` says which harness answers, asked anew for every input."""

    target: Callable[[], str]
    _runs: dict[str, str] = field(default_factory=dict[str, str])

    async def reconcile(self, turn: Turn) -> Result | None:
        """Go through everything that is not committed, in order; answer what can be, commit what is done."""
        progress = _Progress()
        inbox = await turn.poll()
        committed = inbox.committed
        while True:
            for item in _in_order(inbox, inbox.results):
                if isinstance(item, LateResult):
                    await self._late_result(turn, item, progress)
                elif _is_input(item, turn):
                    await self._input(turn, item, progress)
            if not inbox.full:
                break
            inbox = await turn.poll(after=inbox.position)
        done = inbox.position if progress.safe_until is None else progress.safe_until
        if done > committed:
            await turn.commit(done)
        if progress.again_in_seconds is None:
            return None
        return Result(requeue_after_seconds=progress.again_in_seconds)

    async def _input(self, turn: Turn, message: Message, progress: _Progress) -> None:
        offset = message.offset or 0
        try:
            run = await self._run_of(turn, message)
        except CapacityExceeded:
            progress.hold(offset, CAPACITY_RETRY_SECONDS)
            return
        except LoopError as error:
            if error.retryable:
                raise
            await self._answer_failed(turn, message, str(error.code), error.message)
            return
        if not run.ended:
            progress.hold(offset, RECHECK_SECONDS)
            return
        await self._answer(turn, message, run)
        self._runs.pop(message.id, None)

    async def _run_of(self, turn: Turn, message: Message) -> Run:
        """The Run of an input: started now, or found again by its key."""
        known = self._runs.get(message.id)
        if known is not None:
            return await turn.loop.call(known).get()
        call = await self._prompt(turn, message)
        self._runs[message.id] = call.id
        return call.submitted or await call.get()

    async def _prompt(self, turn: Turn, message: Message) -> Call:
        try:
            return await turn.prompt(
                message.text,
                idempotency_key=f"{message.id}/run",
                effect_key="answer",
                target=self.target(),
                tools=TOOLS,
                history=await _history(turn, message),
                recipient=turn.actor,
                meta={"input_id": message.id},
            )
        except Conflict as conflict:
            # Started before a crash, when the history still looked different: that Run is the one.
            run_id = conflict.detail.get("run_id")
            if not isinstance(run_id, str):
                raise
            return turn.loop.call(run_id)

    async def _answer(self, turn: Turn, message: Message, run: Run) -> None:
        """The one answer to an input, in the conversation of the person."""
        if run.phase is RunPhase.CANCELLED:
            await turn.speak(
                text_content(stopped_text(message.text)),
                key=f"{message.id}/answer",
                reply_to=message.id,
                target=message.actor,
                status=MessageStatus.CANCELLED,
            )
        elif run.result is None:
            error = run.error or {}
            code = str(error.get("code") or "run_failed")
            await self._answer_failed(turn, message, code, str(error.get("message") or code))
        else:
            output = await turn.loop.message(run.message_id)
            harness = output.content.get("meta", {}).get("harness")
            content, in_words = run.result.content, run.result.format == "text"
            await turn.speak(
                text_content(
                    str(content) if in_words else json.dumps(content),
                    markdown=in_words and writes_markdown(output.content),
                    meta={"harness": harness} if harness else {},
                ),
                key=f"{message.id}/answer",
                reply_to=message.id,
                target=message.actor,
            )

    async def _answer_failed(self, turn: Turn, message: Message, code: str, text: str) -> None:
        await turn.speak(
            text_content(text, meta=error_meta(code, text)),
            key=f"{message.id}/answer",
            reply_to=message.id,
            target=message.actor,
            status=MessageStatus.FAILED,
        )

    async def _late_result(self, turn: Turn, late: LateResult, progress: _Progress) -> None:
        """Tell how an operation ended that its Run left running.

        What a Run has told itself is not told again: neither its own answer, nor that an agent ended the
        operation, for that agent's own call tells so.
        """
        if late.ok and (late.result or {}).get("reason") in _ENDED_BY_AGENT:
            return
        story = await _story_of(turn, late)
        if story is None or story.told_by_run:
            return
        if story.outcome is None:
            # The Run has not decided yet whether this answer is its own.
            progress.hold(late.message.offset or 0, RECHECK_SECONDS)
            return
        person = await _person_of(turn, story)
        await turn.speak(
            tell_late_result(story, late),
            key=f"{late.call_id}/ended",
            reply_to=story.input_id,
            target=person,
        )


def description_of(target: str) -> str:
    """What people read about the assistant while `target` answers."""
    return DESCRIPTIONS.get(target, "Answers, and uses the tools of your device.")


def assistant_operator(
    *, target: str | Callable[[], str] = "demo", display_name: str = "Assistant"
) -> Operator:
    """The assistant, ready for an OperatorWorker. `target` is a harness that the server has, or says which
    one answers next.
    """
    source = (lambda: target) if isinstance(target, str) else target
    operator = Operator(
        ASSISTANT_KEY,
        display_name=display_name,
        description=description_of(source()),
    )
    rules = Assistant(source)

    @operator.reconcile
    async def reconcile(turn: Turn) -> Result | None:
        return await rules.reconcile(turn)

    return operator


def _is_input(message: Message, turn: Turn) -> bool:
    """What a person says to the assistant. Answers to questions belong to the Run that asked."""
    return message.purpose is Purpose.INPUT and message.target == turn.actor


def _in_order(messages: Sequence[Message], results: Sequence[LateResult]) -> list[Message | LateResult]:
    """What was polled, by offset."""
    items: list[tuple[int, Message | LateResult]] = [(message.offset or 0, message) for message in messages]
    items += [(late.message.offset or 0, late) for late in results]
    return [item for _, item in sorted(items, key=lambda pair: pair[0])]


async def _history(turn: Turn, message: Message) -> list[dict[str, Any]]:
    """What was said before an input: `[{"role", "text"}]`, oldest first; only what has ended
    and has words.
    """
    page = await turn.read(before=message.ordinal, limit=HISTORY_MESSAGES, newest_first=True)
    return [
        {"role": "person" if said.actor.kind == USER else "assistant", "text": said.text}
        for said in reversed(page.items)
        if said.status.ended and said.text and said.actor.kind in (USER, OPERATOR)
    ]


async def _story_of(turn: Turn, late: LateResult) -> OperationStory | None:
    """What the Run of a call knows of it; None when no Run made this call."""
    run_id, slash, key = late.call_id.rpartition("/")
    if not slash or not run_id.startswith("run_"):
        return None
    try:
        answer = await turn.loop.request("GET", f"/v1/harness/runs/{run_id}/ledger", params={"limit": 500})
    except NotFound:
        return None
    return operation_story(answer["items"], key)


async def _person_of(turn: Turn, story: OperationStory) -> Any:
    """Who said what led to the call; everyone, when that cannot be found any more."""
    if story.input_id is None:
        return None
    try:
        return (await turn.loop.message(story.input_id)).actor
    except NotFound:
        return None
