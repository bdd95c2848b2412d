"""A database with Runs, an engine that can die, and a device that answers as a test says."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from lineloop.harness.adapters.demo import DemoAdapter
from lineloop.harness.adapters.port import Adapter
from lineloop.harness.port import Claim, Lease, RunChange, Written
from lineloop.harness.runner import Runner
from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.kit.database import Database
from lineloop.kit.engines import open_database
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.protocol.actors import Actor
from lineloop.protocol.content import content_text, envelope_content
from lineloop.protocol.envelopes import FromDevice, inventory_envelope, tool_error, tool_receipt, tool_result
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.machines import RunPhase
from lineloop.protocol.messages import Message
from lineloop.protocol.tools import Inventory, ToolDescriptor
from lineloop.server.commit import CommitContext, Commits
from lineloop.server.commit.participation import CreateConversation, ensure_process_conversation_in
from lineloop.server.commit.speaking import SpeakCommand
from lineloop.server.commit_run_jobs import SubmitRun
from lineloop.server.commit_runs import RunCommits
from lineloop.server.decide.runs import request_digest
from lineloop.server.run_records import RunRow
from lineloop.server.store import messages
from lineloop.server.wakeup.bus import Bus
from lineloop.testing import FakeClock
from lineloop.testing.databases import server_database

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[3]
USER = Actor("user", "local")
ASSISTANT = Actor("operator", "assistant")
DEVICE = Actor("runtime", "laptop")


def pomodoro_tools() -> list[ToolDescriptor]:
    manifest = json.loads((ROOT / "apps/pomodoro/manifest.json").read_text(encoding="utf-8"))
    return [
        ToolDescriptor.from_wire({**tool, "app_scope": manifest["app_scope"]}) for tool in manifest["tools"]
    ]


async def _gone(*_: Any) -> None:
    raise ConnectionLost("this engine is dead")


class MortalPort:
    """The port of one engine. Once `dead`, nothing of that engine reaches the storage, as after kill -9.

    `death` is (label, nth, side): the engine dies before or after the nth commit under that label.
    """

    def __init__(self, runs: RunCommits, death: tuple[str, int, str] | None = None) -> None:
        self._runs = runs
        self._death = death
        self._commits: Counter[str] = Counter()
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return _gone if self.dead else getattr(self._runs, name)

    async def claim(self, holder: str, limit: int, lease_ms: int) -> list[Claim]:
        return await self._mortal("harness.claim", lambda: self._runs.claim(holder, limit, lease_ms))

    async def write(self, lease: Lease, change: RunChange, *, label: str) -> Written:
        return await self._mortal(label, lambda: self._runs.write(lease, change, label=label))

    async def _mortal(self, label: str, work: Callable[[], Awaitable[T]]) -> T:
        if self.dead:
            raise ConnectionLost("this engine is dead")
        self._commits[label] += 1
        here = self._death is not None and self._death[:2] == (label, self._commits[label])
        if here and self._death is not None and self._death[2] == "before":
            self.dead = True
            raise ConnectionLost("this engine is dead")
        result = await work()
        if here:
            self.dead = True
            raise ConnectionLost("this engine is dead")
        return result


@dataclass(slots=True)
class RunWorld:
    """`root` is a person's conversation, `workspace` the assistant's under it."""

    db: Database
    clock: FakeClock
    ids: Ids
    commits: Commits
    runs: RunCommits
    root: str
    workspace: str
    engines: list[tuple[Runner, MortalPort]] = field(default_factory=list[tuple[Runner, MortalPort]])

    async def start_engine(
        self, *adapters: Adapter, slots: int = 50, death: tuple[str, int, str] | None = None
    ) -> Runner:
        port = MortalPort(self.runs, death)
        by_name: Mapping[str, Adapter] = {adapter.name: adapter for adapter in adapters or (DemoAdapter(),)}
        runner = Runner(port, by_name, self.clock, self.ids, slots=slots)  # pyright: ignore[reportArgumentType]
        await runner.start()
        self.engines.append((runner, port))
        return runner

    @property
    def engine_died(self) -> bool:
        return self.engines[-1][1].dead

    async def kill_engine(self) -> None:
        """Nothing is released, nothing said: the leases run out by themselves."""
        runner, port = self.engines.pop()
        port.dead = True
        await runner.stop()

    async def outlive_leases(self) -> None:
        await self.clock.advance(31)

    async def submit(
        self, text: str, *, key: str = "k1", conversation_id: str | None = None, **fields: Any
    ) -> RunRow:
        """As the assistant, into its workspace; the output goes to the assistant. Returns what is stored."""
        run, _ = await self.runs.submit(
            self.command(text, key=key, conversation_id=conversation_id, **fields)
        )
        return run

    def command(
        self, text: str, *, key: str = "k1", conversation_id: str | None = None, **fields: Any
    ) -> SubmitRun:
        timeout_ms = fields.pop("timeout_ms", None)
        target = fields.pop("target", "demo")
        request = {"text": text, **fields}
        return SubmitRun(
            run_id=self.ids.make("run"),
            message_id=self.ids.make("msg"),
            conversation_id=conversation_id or self.workspace,
            prompter=ASSISTANT,
            actor=Actor("harness", target),
            recipient=ASSISTANT,
            idempotency_key=key,
            effect_key="answer",
            target=target,
            request=request,
            digest=request_digest({**request, "target": target, "timeout_ms": timeout_ms}),
            timeout_ms=timeout_ms,
            speaker=None,
        )

    async def run(self, run: RunRow) -> RunRow:
        return await self.runs.get(run.id)

    async def reach(self, run: RunRow, phase: RunPhase) -> RunRow:
        """Let time pass until the Run is in `phase`."""
        for _ in range(120):
            await self.clock.settle()
            now = await self.runs.get(run.id)
            if now.phase is phase:
                return now
            await self.clock.advance(0.25)
        raise AssertionError(f"the run is {(await self.runs.get(run.id)).phase}, not {phase}")

    async def message(self, message_id: str) -> Message:
        found = await self.commits.read(lambda tx: messages.get(tx, message_id))
        assert found is not None
        return found.to_message()

    async def text(self, run: RunRow) -> str:
        """What a person reads in the output."""
        return content_text((await self.message(run.message_id)).content)

    async def result(self, run: RunRow) -> Any:
        stored = (await self.runs.get(run.id)).result
        return None if stored is None else stored["content"]

    async def ledger(self, run: RunRow) -> list[str]:
        return [entry.type for entry in await self.runs.ledger(run.id, after=0, limit=1000)]

    async def patch_log(self, run: RunRow) -> list[dict[str, Any]]:
        return await self.runs.output_patches(run.message_id)

    async def in_root(self, purpose: str | None = None) -> list[Message]:
        """Every message of the root conversation, in order."""
        rows = await self.commits.read(
            lambda tx: tx.all(
                "SELECT id FROM messages WHERE conversation_id = :id ORDER BY ordinal", {"id": self.root}
            )
        )
        found = [await self.message(row[0]) for row in rows]
        return [message for message in found if purpose is None or message.purpose == purpose]

    # --- the device ---

    async def connect_device(self) -> None:
        await self.commits.activate_device(USER.key, DEVICE.key)

    async def publish(self, tools: list[ToolDescriptor] | None = None) -> str:
        """The device publishes its inventory to the assistant; returns the revision."""
        apps = [{"app_scope": "pomodoro", "title": "Pomodoro"}]
        inventory = Inventory.of(tools if tools is not None else pomodoro_tools(), apps=apps)
        sent = inventory_envelope(self.head("runtime"), inventory.to_payload())
        await self.device_speaks(sent, reply_to=None)
        return inventory.revision

    async def invokes(self) -> list[Message]:
        found = [message for message in await self.in_root("envelope") if message.target == DEVICE]
        return [message for message in found if envelope(message)["type"] == "lineup.tool.invoke"]

    async def next_invoke(self, count: int = 1) -> Message:
        for _ in range(40):
            await self.clock.settle()
            found = await self.invokes()
            if len(found) >= count:
                return found[count - 1]
            await self.clock.advance(0.25)
        raise AssertionError(f"only {len(await self.invokes())} invokes")

    async def receipt(self, invoke: Message, stage: Any, sequence: int, **facts: Any) -> Message:
        head, call_id = self.head("pomodoro"), _call_id(invoke)
        sent = tool_receipt(head, stage, call_id=call_id, sequence=sequence, facts=facts)
        return await self.device_speaks(sent, reply_to=invoke.id)

    async def answer(self, invoke: Message, sequence: int, result: dict[str, Any]) -> Message:
        sent = tool_result(self.head("pomodoro"), result, call_id=_call_id(invoke), sequence=sequence)
        return await self.device_speaks(sent, reply_to=invoke.id)

    async def refuse(
        self, invoke: Message, sequence: int, error: LoopError, *, rejected: bool = False
    ) -> Message:
        sent = tool_error(
            self.head("pomodoro"), error, call_id=_call_id(invoke), sequence=sequence, rejected=rejected
        )
        return await self.device_speaks(sent, reply_to=invoke.id)

    def head(self, app_scope: str) -> FromDevice:
        now = rfc3339(self.clock.now_ms())
        return FromDevice(self.ids.make("env"), now, DEVICE.key, ASSISTANT, self.root, app_scope)

    async def device_speaks(
        self, sent: dict[str, Any], *, reply_to: str | None, actor: Actor = DEVICE
    ) -> Message:
        command = SpeakCommand(
            message_id=self.ids.make("msg"),
            conversation_id=self.root,
            actor=actor,
            key=self.ids.make("out"),
            content=envelope_content(sent),
            target=ASSISTANT,
            reply_to_id=reply_to,
            speaker=None,
        )
        spoken = await self.commits.speak(command)
        await self.clock.settle()
        return spoken.message.to_message()


def envelope(message: Message) -> dict[str, Any]:
    """The envelope of a message that has one."""
    assert message.envelope is not None
    return message.envelope


def _call_id(invoke: Message) -> str:
    return str(envelope(invoke)["correlation"]["call_id"])


@asynccontextmanager
async def run_world(
    tmp_path: Path, *, targets: tuple[str, ...] = ("demo",), slots: int = 50, plan: str = ""
) -> AsyncGenerator[RunWorld, None]:
    clock = FakeClock()
    ids = Ids(clock, Random(7))
    faults = Faults(FaultSite, plan)
    db = await open_database(server_database(tmp_path / "server.db"), clock=clock, faults=faults)
    clock.settle_on(lambda: db.idle)
    try:
        commits = Commits(db, CommitContext(clock, ids, Bus()))
        runs = RunCommits(commits, targets, slots=slots)
        root, _ = await commits.create_conversation(CreateConversation("con_root", "", USER))
        workspace = await commits.write(
            lambda tx: ensure_process_conversation_in(tx, commits.ctx, root, ASSISTANT)
        )
        world = RunWorld(db, clock, ids, commits, runs, root.id, workspace)
        try:
            yield world
        finally:
            for runner, _ in world.engines:
                await runner.stop()
    finally:
        await db.close()


__all__ = ["ASSISTANT", "DEVICE", "USER", "RunWorld", "envelope", "pomodoro_tools", "run_world"]
