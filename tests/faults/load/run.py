"""One load from the first word to the verdict."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.faults.load.actors import (
    PERSON,
    Scene,
    Viewer,
    ask,
    consume_by_link,
    consume_by_polling,
    speak,
    stream,
    wire,
    write,
)
from tests.faults.load.calls import Caller, Json
from tests.faults.load.servers import Disturb, ServerProcess, killing

from lineloop.testing.history import (
    Cursor,
    History,
    Reading,
    Stored,
    StoredQuestion,
    Violation,
    check,
    stored_message,
)

ROOTS = 5
HEAL_SECONDS = 90.0


@dataclass(frozen=True)
class Plan:
    """`viewers` and the rest are counts over all conversations."""

    seconds: float
    seed: int
    kill_every_seconds: float = 20.0
    writers: int = 20
    streams: int = 10
    viewers: int = 20
    operators: int = ROOTS


@dataclass(slots=True)
class Report:
    violations: list[Violation]
    operations: Counter[str]
    kills: int
    messages: int
    seconds: float

    def text(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.operations.items()))
        found = Counter(str(one.rule) for one in self.violations)
        return (
            f"{self.seconds:.0f} s, {self.kills} kills, {self.messages} messages stored; attempts: {counts}; "
            f"violations: {dict(found) or 'none'}"
        )


@dataclass(slots=True)
class Load:
    """The parts of one run. `disturb` harms whatever it likes, instead of the killer of the plan."""

    plan: Plan
    servers: list[ServerProcess]
    disturb: Disturb | None = None
    history: History = field(default_factory=History)
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    dice: random.Random = field(init=False)
    client: httpx.AsyncClient = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.plan.seed)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        self.client = httpx.AsyncClient(timeout=httpx.Timeout(10.0), limits=limits)

    def caller(self, token: str) -> Caller:
        urls = [server.url for server in self.servers]
        return Caller(self.client, urls, token, random.Random(self.dice.random()))

    async def run(self) -> Report:
        began = time.monotonic()
        for server in self.servers:
            await server.start()
        try:
            async with self.client:
                return await self._run(began)
        finally:
            for server in self.servers:
                server.close()

    async def _run(self, began: float) -> Report:
        # A stored token is good on every server and after every start; an administrator's only on its own.
        admin = Caller(self.client, [self.servers[0].url], self.servers[0].admin_token, self.dice)
        for actor in (PERSON, *(f"operator/op{number}" for number in range(self.plan.operators))):
            made = await admin.until_done("POST", "/tokens", {"actor": wire(actor)})
            self.tokens[actor] = made["token"]
        person = self.caller(self.tokens[PERSON])
        roots = [
            (await person.until_done("POST", "/conversations", {"name": f"load {number}"}))["id"]
            for number in range(ROOTS)
        ]
        scene = Scene(self.history)
        viewers = await self._take_part(scene, roots)
        reading = await self._read(person, roots)
        violations = check(self.history, reading)
        kinds = Counter(type(one).__name__ for one in self.history.operations)
        kills = sum(server.kills for server in self.servers)
        assert viewers
        return Report(violations, kinds, kills, len(reading.messages), time.monotonic() - began)

    async def _take_part(self, scene: Scene, roots: list[str]) -> list[Viewer]:
        """Everybody acts until the time is up; then everything heals and is finished."""
        plan, person = self.plan, self.tokens[PERSON]
        viewers = [
            Viewer(scene, self.caller(person), roots[number % ROOTS], f"viewer{number}")
            for number in range(plan.viewers)
        ]
        async with asyncio.TaskGroup() as watching:
            pages = [watching.create_task(viewer.run(self.client)) for viewer in viewers]
            async with asyncio.timeout(HEAL_SECONDS):
                for viewer in viewers:
                    await viewer.ready.wait()
            harm = self.disturb or killing(plan.kill_every_seconds)
            disturbing = watching.create_task(harm(self.servers, random.Random(self.dice.random())))
            await self._invite(scene, roots)
            async with asyncio.TaskGroup() as acting:
                for work in self._works(scene, roots):
                    acting.create_task(work)
                await asyncio.sleep(plan.seconds)
                disturbing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await disturbing
                scene.stopping.set()
            # What was begun when the operators looked for the last time is answered now.
            await asyncio.gather(*self._operators(scene, roots))
            await self._until_shown(viewers, roots)
            for page in pages:
                page.cancel()
        return viewers

    async def _invite(self, scene: Scene, roots: list[str]) -> None:
        """A first word to each operator: an operator takes part where a person spoke to it."""
        person = self.caller(self.tokens[PERSON])
        for number in range(self.plan.operators):
            root = roots[number % ROOTS]
            await speak(scene, person, root, PERSON, f"hello-{number}", "hello", f"operator/op{number}")

    def _works(self, scene: Scene, roots: list[str]):
        plan, person = self.plan, self.tokens[PERSON]
        for number in range(plan.writers):
            operator = f"operator/op{number % plan.operators}"
            yield write(scene, self.caller(person), roots[number % ROOTS], operator, f"w{number}")
        for number in range(plan.streams):
            operator = f"operator/op{number % plan.operators}"
            caller = self.caller(self.tokens[operator])
            yield stream(scene, caller, roots[number % ROOTS], operator, f"s{number}")
        for number in range(plan.operators):
            operator, root = f"operator/op{number}", roots[number % ROOTS]
            caller = self.caller(self.tokens[operator])
            if number % 2:
                yield consume_by_polling(scene, caller, root, operator)
            else:
                yield consume_by_link(scene, caller, root, operator, f"link{number}")
            asker = self.caller(self.tokens[operator])
            yield ask(scene, asker, self.caller(person), root, operator, f"q{number}")

    def _operators(self, scene: Scene, roots: list[str]):
        for number in range(self.plan.operators):
            operator, root = f"operator/op{number}", roots[number % ROOTS]
            yield consume_by_polling(scene, self.caller(self.tokens[operator]), root, operator)

    async def _until_shown(self, viewers: list[Viewer], roots: list[str]) -> None:
        """Every viewer has everything, and every question is closed; what is not then, the judge will say."""
        person = self.caller(self.tokens[PERSON])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEAL_SECONDS):
                while True:
                    reading = await self._read(person, roots)
                    if not check(self.history, reading):
                        return
                    await asyncio.sleep(2.0)

    async def _read(self, person: Caller, roots: list[str]) -> Reading:
        messages: list[Stored] = []
        cursors: list[Cursor] = []
        questions: list[StoredQuestion] = []
        parents: dict[str, str] = {}
        for root in roots:
            below = await _all(person, "/conversations", parent_id=root)
            parents |= {one["id"]: root for one in below}
            for conversation in (root, *(one["id"] for one in below)):
                listed = await _all(person, f"/conversations/{conversation}/messages", purpose="all")
                messages += [stored_message(one) for one in listed]
                cursors += await _cursors(person, conversation)
        for message in messages:
            if message.purpose == "question":
                block = message.content["blocks"][0]
                questions.append(StoredQuestion(message.id, block["state"], block["value"]))
        return Reading(messages=messages, questions=questions, cursors=cursors, roots=parents)


async def _all(person: Caller, path: str, **params: str) -> list[Json]:
    items: list[Json] = []
    after: str | None = None
    while True:
        page = await person.get(path, limit=200, **params, **({} if after is None else {"after": after}))
        items += page["items"]
        after = page["next"]
        if after is None:
            return items


async def _cursors(person: Caller, conversation: str) -> list[Cursor]:
    resource = await person.get(f"/conversations/{conversation}/resource")
    ends = {
        f"{one['kind']}/{one['key']}": one["endOffset"] for one in resource["spec"].get("participants", ())
    }
    cursors: list[Cursor] = []
    for one in resource["status"].get("consumers", ()):
        actor = f"{one['kind']}/{one['key']}"
        cursors.append(Cursor(conversation, actor, one["position"], one["committed"], ends.get(actor, 0)))
    return cursors


async def load(
    plan: Plan,
    folder: Path,
    *,
    servers: int = 1,
    more: tuple[str, ...] = (),
    disturb: Disturb | None = None,
) -> Report:
    """Runs the plan on that many servers. `more` are further arguments of `lineloop serve`."""
    made = [ServerProcess(folder / f"server{number}", *more) for number in range(servers)]
    return await Load(plan, made, disturb).run()
