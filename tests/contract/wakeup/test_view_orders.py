"""A viewer whose server hears of messages in every order there is, and read them early or late: nothing that
is shown goes back, and at the end everything is there.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.contract.server.calls import append_text, emit, end, history, open_stream, set_text, speak
from tests.contract.server.stream_reader import Reader, viewer
from tests.contract.wakeup.replicas import Pair, pair

from lineloop.kit.database import Tx
from lineloop.server.upkeep.rereading import (
    _reread,  # pyright: ignore[reportPrivateUsage]
    _seen,  # pyright: ignore[reportPrivateUsage]
)
from lineloop.server.wakeup.bus import Hint
from lineloop.server.wakeup.relay_hints import Bundle, MessageMoved, PatchesLogged, parse_bundle

NEVER = 3600.0


@dataclass
class Shown:
    """What A has done, as hints on their way to B: first as they travel, then as B has read them."""

    two: Pair
    root: str
    dice: random.Random
    travelling: list[MessageMoved | PatchesLogged] = field(
        default_factory=list["MessageMoved | PatchesLogged"]
    )
    read: list[Hint] = field(default_factory=list[Hint])
    streams: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    said: int = 0

    def hear_of_a(self, hint: Hint) -> None:
        bundle = Bundle()
        if bundle.add(hint):
            for text in bundle.texts("a", 1 << 20):
                found = parse_bundle(text)[1]
                self.travelling += [one for one in found if isinstance(one, MessageMoved | PatchesLogged)]

    async def write(self) -> None:
        """One word more, somewhere, at A."""
        http = self.two.a.http
        kind = self.dice.choice(("speak", "open", "append", "append", "append", "end"))
        if kind == "speak" or (kind != "open" and not self.streams):
            self.said += 1
            await speak(http, self.root, f"k{self.said}")
        elif kind == "open":
            self.said += 1
            opened = await open_stream(http, self.root, f"s{self.said}")
            self.streams.append((opened["id"], 0))
        else:
            at = self.dice.randrange(len(self.streams))
            name, seq = self.streams[at]
            if kind == "end":
                del self.streams[at]
                await end(http, name, seq + 1)
            else:
                await emit(http, name, append_text(seq + 1, "x") if seq else set_text(1, "x"))
                self.streams[at] = (name, seq + 1)

    async def look(self) -> None:
        """B reads one of them as things stand now, which it may be told later."""
        if self.travelling:
            hint = self.travelling.pop(self.dice.choice((0, self.dice.randrange(len(self.travelling)))))
            self.read += await self.two.b.server.commits.read(lambda tx: _reread(tx, [hint]))

    async def tell(self) -> None:
        """Some of what was read, at once, in any order; one may be lost."""
        count = self.dice.randrange(len(self.read) + 1)
        for hint in self.dice.sample(self.read, count):
            self.read.remove(hint)
            if self.dice.random() < 0.9:
                self.two.b.server.bus.tell(hint)
        for _ in range(self.dice.randrange(30)):
            await asyncio.sleep(0)

    async def sweep(self) -> None:
        def read(tx: Tx) -> list[Hint]:
            return list(_seen(tx, [self.root]))

        for hint in await self.two.b.server.commits.read(read):
            self.two.b.server.bus.tell(hint)


async def follow(reader: Reader) -> None:
    """A patch that leaves a gap fails in the reader; what goes back fails here."""
    while True:
        before = dict(reader.messages)
        kind, data = await reader.next()
        if kind == "message" and (known := before.get(data["message"]["id"])) is not None:
            told = data["message"]
            assert told["revision"] >= known["revision"], (known, told)
            assert known["status"] == "streaming" or told["status"] != "streaming", (known, told)


async def complete(shown: Shown, reader: Reader) -> None:
    """Until the reader has what there is; a sweep now and then, as there are no hints any more."""
    stored = {one["id"]: one for one in await history(shown.two.a.http, shown.root, limit=200)}
    async with asyncio.timeout(10):
        while reader.messages != stored:
            await shown.sweep()
            await asyncio.sleep(0.02)
            for name, one in reader.messages.items():
                # A patch tells no time.
                one["updated_at"] = stored[name]["updated_at"]


@pytest.mark.requirement("C30", "L133")
async def test_in_whatever_order_hints_are_read_and_told_nothing_that_is_shown_goes_back(
    tmp_path: Path,
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    async with pair(tmp_path / "server.db", sweep_seconds=NEVER) as two:
        for run in range(8):
            answer = await two.a.http.post("/v1/conversations", json={"name": "test"})
            shown = Shown(two, answer.json()["id"], random.Random(seed + run))
            two.a.server.bus.relay_to(shown.hear_of_a)
            async with viewer(two.b.http, shown.root) as reader:
                following = asyncio.ensure_future(follow(reader))
                steps = shown.dice.choices(
                    (shown.write, shown.look, shown.tell, shown.sweep), (8, 8, 6, 1), k=150
                )
                try:
                    for step in steps:
                        await step()
                        if following.done():
                            break
                    else:
                        await complete(shown, reader)
                    following.cancel()
                    await following
                except asyncio.CancelledError:
                    pass
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"seed {seed + run}: {error}") from error
            two.a.server.bus.relay_to(None)
