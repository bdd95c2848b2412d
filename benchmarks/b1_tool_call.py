"""B1: a durable tool call through three processes, beside the MCP SDK's call that is not durable.

Ours: this process is the agent (client, link); `lineloop serve` keeps the conversation (SQLite, FULL);
`lineloop device` runs the probe app's `query` tool in its logic container. Every invoke, receipt and result
is a committed message. Theirs: the `mcp` SDK's client and server over streamable HTTP, one client per
caller, the same no-op tool.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from mcp.client import Client

from benchmarks.measure import Figures, Goal, Report, in_turn, latencies_ms, per_second, percentile, row
from benchmarks.processes import environment, free_port, lineloop, listening, start, stop
from lineloop import Actor, Loop, Message
from lineloop.client.batches import ItemKind
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids
from lineloop.protocol.content import envelope_content
from lineloop.protocol.envelopes import FromAgent, tool_invoke
from lineloop.protocol.tools import ToolKey

PROBE = Path(__file__).parent.parent / "tests/fixtures/apps/probe"
TOOL = ToolKey("probe", "probe.echo", "1")
AGENT = Actor("operator", "bench")
CALLS, WARM, WORKERS, EACH = 200, 10, 16, 25
ANSWER_SECONDS = 30.0


class Caller:
    """The agent: speaks invokes over its link and hands each answer to who waits for it."""

    def __init__(self, loop: Loop, conversation_id: str, device: Actor) -> None:
        self._link = loop.link()
        self._conversation = conversation_id
        self._device = device
        self._ids = Ids(SystemClock())
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._heard = self._committed = 0
        self._revision = ""
        self._published = asyncio.Event()
        self._link.on_deliver(self._deliver)

    async def ready(self) -> None:
        await self._link.start()
        await asyncio.wait_for(self._published.wait(), ANSWER_SECONDS)

    def _deliver(self, messages: list[Message]) -> None:
        for message in messages:
            envelope = message.envelope
            if envelope is None:
                continue
            if envelope["type"] == "lineup.runtime.inventory":
                if any(tool["method"] == TOOL.method for tool in envelope["payload"]["tools"]):
                    self._revision = envelope["payload"]["revision"]
                    self._published.set()
            elif envelope["type"] in ("lineup.tool.result", "lineup.tool.error"):
                waiting = self._waiting.pop(envelope["correlation"]["call_id"], None)
                if waiting:
                    waiting.set_result(envelope)
        offsets = [message.offset for message in messages if message.offset is not None]
        self._heard = max([self._heard, *offsets])

    def _say_how_far(self) -> None:
        """Commits what was heard, in the frame of the next call: an agent says how far it is when it goes
        on.
        """
        if self._heard > self._committed:
            self._committed = self._heard
            body = {"conversation_id": self._conversation, "position": self._heard}
            self._link.submit(ItemKind.COMMIT, body)

    async def call(self, _: int) -> None:
        call_id = self._ids.make("call")
        head = FromAgent(
            id=self._ids.make("env"),
            timestamp="2026-01-01T00:00:00Z",
            agent=AGENT,
            conversation_id=self._conversation,
        )
        envelope = tool_invoke(head, TOOL, {"text": "x"}, call_id=call_id, inventory_revision=self._revision)
        waiting: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = waiting
        body = {"key": call_id, "target": self._device.to_wire(), "content": envelope_content(envelope)}
        self._say_how_far()
        await self._link.speak(self._conversation, body)
        answer = await asyncio.wait_for(waiting, ANSWER_SECONDS)
        if answer["type"] != "lineup.tool.result":
            raise RuntimeError(f"the call failed: {answer['payload']}")


class Shares:
    """Where the time of a call goes: processor time per call of each process, in milliseconds."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._processes = {
            "agent": psutil.Process(),
            **{name: psutil.Process(pid) for name, pid in pids.items()},
        }
        for child in self._processes["device"].children(recursive=True):
            self._processes["container"] = child
        self.rounds: list[dict[str, float]] = []

    def _now(self) -> dict[str, float]:
        return {name: sum(process.cpu_times()[:2]) for name, process in self._processes.items()}

    async def measured(self, work: Awaitable[Figures]) -> Figures:
        before = self._now()
        figures = await work
        after = self._now()
        calls = CALLS + WARM + WORKERS * EACH
        self.rounds.append({name: (after[name] - before[name]) * 1000 / calls for name in after})
        return figures

    def sentence(self) -> str:
        medians = {name: statistics.median(one[name] for one in self.rounds) for name in self.rounds[0]}
        parts = ", ".join(f"{name} {value:.2f} ms" for name, value in medians.items())
        head = "Where the time goes: processor time per call: "
        return f"{head}{parts}; the rest of the latency is waiting (disk, wake-ups)."


async def figures(one: Any, all_of_them: list[Any]) -> Figures:
    times = await latencies_ms(one, CALLS, WARM)
    return {
        "p50": statistics.median(times),
        "p99": percentile(times, 0.99),
        "rate": await per_second(all_of_them, EACH),
    }


@asynccontextmanager
async def our_side(folder: Path) -> AsyncGenerator[tuple[Caller, Shares]]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(lineloop(folder, "serve", "serve", "--port", "0"))
        url, admin_token = server["server_url"], server["admin_token"]
        admin = await stack.enter_async_context(await Loop.connect(url, admin_token))
        device = Actor("runtime", "bench-device")
        made = await admin.request("POST", "/v1/tokens", json={"actor": device.to_wire()})
        joined = ["device", "--server", url, "--token", made["token"]]
        runtime = await stack.enter_async_context(lineloop(folder, "device", *joined))
        install = ["app", "install", str(PROBE), "--yes", "--data-dir", str(folder / "device-data")]
        done = subprocess.run(
            [sys.executable, "-m", "lineloop.cli", *install],
            env=environment(),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        agent = await admin.request("POST", "/v1/tokens", json={"actor": AGENT.to_wire()})
        loop = await stack.enter_async_context(await Loop.connect(url, agent["token"]))
        conversation = await admin.create_conversation("bench")
        await admin.conversation(conversation.id).speak("hello", key="hello", target=AGENT)
        caller = Caller(loop, conversation.id, device)
        await caller.ready()
        await caller.call(0)  # starts the container
        yield caller, Shares({"server": server["pid"], "device": runtime["pid"]})


async def measure(folder: Path) -> Report:
    report = Report(
        "B1",
        "a durable tool call: agent → server → device → app handler → result",
        "the `mcp` SDK's client and server over streamable HTTP, the same no-op tool, one client per caller; "
        "nothing is stored.",
    )
    port, log = free_port(), folder / "mcp.log"
    peer = start([str(Path(__file__).parent / "mcp_peer.py"), str(port)], log)
    try:
        await listening(port, peer, log)
        async with AsyncExitStack() as stack:
            caller, shares = await stack.enter_async_context(our_side(folder))
            url = f"http://127.0.0.1:{port}/mcp"
            clients = [await stack.enter_async_context(Client(url)) for _ in range(WORKERS)]

            def through(client: Client) -> Any:
                async def call(_: int) -> None:
                    await client.call_tool("query", {"text": "x"})

                return call

            async def ours() -> Figures:
                return await shares.measured(figures(caller.call, [caller.call] * WORKERS))

            async def theirs() -> Figures:
                return await figures(through(clients[0]), [through(client) for client in clients])

            mine, other = await in_turn(ours, theirs)
    finally:
        stop(peer)
    report.rows = [
        row("latency, p50", "ms", "p50", mine, other, Goal("<=", 1.0)),
        row("latency, p99", "ms", "p99", mine, other, None),
        row(f"calls per second, {WORKERS} at once", "/s", "rate", mine, other, Goal(">=", 2.0)),
    ]
    report.notes = [
        shares.sentence(),
        "Ours commits three times per call with synchronous FULL: the invoke; accepted, cursor, result and "
        "outbox; receipts and result as messages. A slow query, or a command, commits acceptance apart. "
        "Theirs stores nothing.",
        f"Processes: agent, server, device (with its container process). {len(mine)} rounds of {CALLS} "
        f"calls one after the other, then {WORKERS * EACH} calls, {WORKERS} at once.",
    ]
    return report
