"""A link whose server hears of messages in every order there is: each is pushed once, in offset order.

Hints of two servers come late, twice, out of order, without their content or not at all, while the backlog
is read, while the sweep looks and while others commit. The dice are seeded; nothing here depends on time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.contract.server.calls import commit, end, open_stream, poll, speak, wire
from tests.contract.wakeup.replicas import Pair, pair

from lineloop.server.commit import Commits
from lineloop.server.http.link import LinkSession
from lineloop.server.upkeep.rereading import _reread  # pyright: ignore[reportPrivateUsage]
from lineloop.server.wakeup.bus import Hint, MessageChanged
from lineloop.server.wakeup.relay_hints import Bundle, MessageMoved, parse_bundle
from lineloop.testing import until

NEVER = 3600.0
STEPS = 120


class SlowReads:
    """The commits as a link sees them, but a read begins and is answered only when the test says so."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits
        self.open = False
        self._begin: asyncio.Event | None = None
        self._answer: asyncio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._commits, name)

    @property
    def is_asked(self) -> bool:
        return self._begin is not None

    @property
    def is_read(self) -> bool:
        return self._answer is not None

    async def read(self, job: Any) -> Any:
        if not self.open:
            self._begin = asyncio.Event()
            await self._begin.wait()
            self._begin = None
        found = await self._commits.read(job)
        if not self.open:
            self._answer = asyncio.Event()
            await self._answer.wait()
            self._answer = None
        return found

    async def begin(self) -> None:
        if self._begin is not None:
            self._begin.set()
            await until(lambda: self._answer is not None)

    async def answer(self) -> None:
        if self._answer is not None:
            self._answer.set()
            await _settle()

    def release(self) -> None:
        """From now on nothing is held up."""
        self.open = True
        for gate in (self._begin, self._answer):
            if gate is not None:
                gate.set()


async def _settle() -> None:
    """Lets everything that can run now do so."""
    for _ in range(10):
        await asyncio.sleep(0)


@dataclass
class Told:
    """The conversation, the link at B, what it was pushed, and the hints that are on their way to B."""

    two: Pair
    root: str
    link: LinkSession
    reads: SlowReads
    dice: random.Random
    actor: str
    got: list[int] = field(default_factory=list[int])
    away: list[MessageMoved] = field(default_factory=list[MessageMoved])
    offsets: list[int] = field(default_factory=list[int])
    streams: list[str] = field(default_factory=list[str])
    following: asyncio.Future[None] = field(init=False)
    committed: int = 0
    foreign: int = 0

    def hear_of_a(self, hint: Hint) -> None:
        bundle = Bundle()
        if isinstance(hint, MessageChanged) and bundle.add(hint):
            for text in bundle.texts("a", 1 << 20):
                self.away += [one for one in parse_bundle(text)[1] if isinstance(one, MessageMoved)]

    async def follow(self) -> None:
        """Takes what is pushed."""
        while True:
            frame = await self.link.receive()
            self.got += [one["offset"] for one in frame.get("deliver", ())]
            assert all(one.get("ok") for one in frame.get("results", ())), frame

    # -- what can happen ---------------------------------------------------------------------------------

    async def say(self) -> None:
        side = self.dice.choice((self.two.a, self.two.b))
        target = self.actor if self.dice.random() < 0.7 else None
        fields: dict[str, Any] = {} if target is None else {"target": target}
        told = await speak(side.http, self.root, f"k{len(self.offsets)}", **fields)
        self.offsets.append(told["offset"])

    async def open_a_stream(self) -> None:
        side = self.dice.choice((self.two.a, self.two.b))
        opened = await open_stream(side.http, self.root, f"s{len(self.streams)}-{len(self.offsets)}")
        self.streams.append(opened["id"])

    async def end_a_stream(self) -> None:
        if self.streams:
            name = self.streams.pop(self.dice.randrange(len(self.streams)))
            side = self.dice.choice((self.two.a, self.two.b))
            await end(side.http, name, 1)
            answer = await side.http.get(f"/v1/messages/{name}")
            self.offsets.append(answer.json()["offset"])

    async def a_hint_arrives(self) -> None:
        """Any of them, perhaps without its content; it may arrive again."""
        if not self.away:
            return
        at = self.dice.choice((0, self.dice.randrange(len(self.away))))
        hint = self.away[at] if self.dice.random() < 0.3 else self.away.pop(at)
        for found in await self.two.b.server.commits.read(lambda tx: _reread(tx, [hint])):
            bare = isinstance(found, MessageChanged) and self.dice.random() < 0.2
            self.two.b.server.bus.tell(replace(found, message=None) if bare else found)

    async def a_hint_is_lost(self) -> None:
        if self.away:
            del self.away[self.dice.randrange(len(self.away))]

    async def the_sweep_looks(self) -> None:
        await self.two.b.server.services.links.sweep()

    async def commit_what_was_pushed(self) -> None:
        if self.got and self.got[-1] > self.committed:
            position = self.dice.choice(self.got)
            if position > self.committed:
                item = {"conversation_id": self.root, "position": position}
                await self.link.send({"id": position, "commit": [item]})
                self.committed = position

    async def another_takes_and_commits(self) -> None:
        """Somebody with the same name polls through A: what is committed need not be pushed any more."""
        told = await poll(self.two.a.http, self.root, actor=wire(self.actor), limit=3)
        if told["position"] > self.committed:
            await commit(self.two.a.http, self.root, told["position"], actor=wire(self.actor))
            self.committed = self.foreign = told["position"]

    async def finish(self) -> None:
        self.reads.release()
        await self.the_sweep_looks()
        last = self.offsets[-1]
        await until(lambda: last <= max([self.committed, *self.got]))
        await _settle()

    def judge(self) -> None:
        assert self.got == sorted(set(self.got)), self.got
        missing = [one for one in self.offsets if one not in self.got and one > self.foreign]
        assert not missing, (missing, self.got)


@asynccontextmanager
async def told(two: Pair, seed: int) -> AsyncGenerator[Told]:
    answer = await two.a.http.post("/v1/conversations", json={"name": "test"})
    root = answer.json()["id"]
    # One that nothing from another run waits for.
    actor = f"operator/{root}"
    await two.a.http.post(f"/v1/conversations/{root}/participants", json=wire(actor))
    link = await two.b.link(actor)
    reads = SlowReads(two.b.server.commits)
    link._commits = reads  # pyright: ignore
    one = Told(two, root, link, reads, random.Random(seed), actor)
    two.a.server.bus.relay_to(one.hear_of_a)
    one.following = asyncio.ensure_future(one.follow())
    try:
        yield one
    finally:
        two.a.server.bus.relay_to(None)
        one.following.cancel()
        with suppress(asyncio.CancelledError):
            await one.following
        await link.close()


@pytest.fixture(scope="module")
def seed() -> int:
    return random.SystemRandom().randrange(1 << 32)


Step = Callable[[], Awaitable[None]]


@pytest.mark.requirement("C30", "L133")
@pytest.mark.parametrize("others_commit", [False, True])
async def test_in_whatever_order_hints_reads_and_commits_come_each_message_is_pushed_once_in_order(
    tmp_path: Path, seed: int, others_commit: bool
) -> None:
    async with pair(tmp_path / "server.db", sweep_seconds=NEVER) as two:
        for run in range(8):
            async with told(two, seed + run) as one:
                steps: list[tuple[Step, int]] = [
                    (one.say, 6),
                    (one.open_a_stream, 1),
                    (one.end_a_stream, 2),
                    (one.a_hint_arrives, 6),
                    (one.a_hint_is_lost, 1),
                    (one.the_sweep_looks, 1),
                    (one.reads.begin, 4),
                    (one.reads.answer, 4),
                    (one.commit_what_was_pushed, 2),
                    (one.another_takes_and_commits, int(others_commit)),
                ]
                kinds, weights = zip(*steps, strict=True)
                trace: list[str] = []
                for step in one.dice.choices(kinds, weights, k=STEPS):
                    trace.append(step.__name__)
                    await step()
                    await _settle()
                try:
                    await one.finish()
                    one.judge()
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"seed {seed + run}: {error}; {trace}") from error


async def test_what_was_not_read_to_its_end_is_read_by_the_next_who_asks(tmp_path: Path) -> None:
    async with pair(tmp_path / "server.db", sweep_seconds=NEVER) as two, told(two, 0) as one:
        one.following.cancel()
        await one.say()
        one.link.look_again([(one.root, 0, one.offsets[-1])])
        asking = asyncio.ensure_future(one.link.receive())
        await one.reads.begin()
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        one.reads.release()
        async with asyncio.timeout(5):
            assert [message["offset"] for message in (await one.link.receive())["deliver"]] == one.offsets
