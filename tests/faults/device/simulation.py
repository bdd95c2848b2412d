"""One seeded history of agents, people, hosts, apps and crashes around one device, in virtual time.

Decides what happens and when, from the seed alone. Whether the device did right is judged afterwards by
`lineloop.testing.device_check`, after everything has been healed.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.device.twice import decide_twice
from tests.interaction.device.apps import changed_probe, tool

from lineloop.device.apps import Packaged
from lineloop.device.containers.port import Completed, Invocation, Open, Outcome
from lineloop.device.decide.intents import IntentKind
from lineloop.kit.faults import Faults
from lineloop.protocol.actors import Actor
from lineloop.protocol.envelopes import FromAgent, tool_cancel
from lineloop.protocol.errors import LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.testing.device_check import described, violations_of
from lineloop.testing.device_world import AGENT, CONVERSATION, DeviceWorld, device_world
from lineloop.testing.scripted_containers import Script
from lineloop.testing.simulated_host import Manner

POMODORO = Packaged.of_this_installation().shipped / "pomodoro"
AGENTS = (AGENT, "operator/other")
CONVERSATIONS = (CONVERSATION, "cnv_two")
STEPS = 14
LOSING = ("device.handler.after_invoke", "device.outbox.after_send", "client.link.send.after")
OTHERS = ("device.apps.", "device.session_data.", "device.inbox.", "device.person.", "device.retention.")


def apps(folder: Path) -> Path:
    """The probe, whose tools have every call model, risk and idempotency, and Pomodoro."""

    def change(manifest: dict[str, Any]) -> None:
        tool(manifest, "probe.add").update(idempotency="none", timeout_ms=20_000)
        tool(manifest, "probe.answer").update(risk="high", timeout_ms=30_000)
        tool(manifest, "probe.ask").update(activation_requirement="foreground_required", timeout_ms=25_000)

    changed_probe(folder, change)
    (folder / "pomodoro").symlink_to(POMODORO, target_is_directory=True)
    return folder


class History:
    """What happens to one world. `told` is every step, in words, for whoever has to find out."""

    def __init__(self, world: DeviceWorld, script: Script, seed: int) -> None:
        self.world = world
        self.random = random.Random(seed)
        self.told: list[str] = []
        self.calls: list[tuple[str, str, str, str, dict[str, Any]]] = []
        self.decisions: list[list[str]] = []
        self.begun: list[str] = []
        self._number = 0
        for method in ("probe.echo", "probe.add", "probe.ask", "probe.answer"):
            script.on(method, self._handler(method))
        self._script = script

    # ── apps ────────────────────────────────────────────────────────────────────────────────────────────────

    def _handler(self, method: str) -> Callable[[Invocation], Awaitable[Outcome]]:
        good = {
            "probe.echo": {"text": "ok"},
            "probe.add": {"total": 1, "revision": 1, "together": 1},
            "probe.ask": {"answer": "yes"},
            "probe.answer": {"answered": "q"},
        }[method]

        async def handle(call: Invocation) -> Outcome:
            self.begun.append(call.call_id)
            match random.Random(call.call_id).randrange(10):
                case 0:
                    raise ValueError("as the history wants")
                case 1:
                    return Completed({"wrong": True})
                case 2:
                    await self.world.clock.sleep(15)
                case 3:
                    await asyncio.get_running_loop().create_future()
                case 4 if method == "probe.ask":
                    return Open()
                case 5:
                    asyncio.get_running_loop().call_soon(self._crash)
                    await asyncio.get_running_loop().create_future()
                case _:
                    pass
            return Completed(good)

        return handle

    def _crash(self) -> None:
        containers = self._script.containers
        for container in list(containers.all.values()) if containers is not None else ():
            if container.alive:
                container.crash()

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """All of it, and then the healing."""
        self.decisions.append(decide_twice(self.world.runtime.room))
        for agent in AGENTS:
            for conversation_id in CONVERSATIONS:
                await self.world.inventory(agent, conversation_id)
        steps: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (8, self.invoke),
            (2, self.repeat),
            (2, self.cancel),
            (4, self.person),
            (2, self.answer),
            (6, self.pass_time),
            (2, self.link),
            (2, self.crash),
            (1, self.switch_app),
            (1, self.set_clock),
        ]
        names, weights = [step for _, step in steps], [weight for weight, _ in steps]
        for _ in range(STEPS):
            step = self.random.choices(names, weights)[0]
            self.told.append(step.__name__)
            with suppress(LoopError, Exception):
                await step()
            if self.random.random() < 0.6:
                await self.world.settle()
        await self.heal()

    async def invoke(self) -> None:
        method, params = self.random.choice(
            [
                ("probe.echo", {"text": "hi"}),
                ("probe.add", {"amount": 1}),
                ("probe.add", {"amount": "many"}),
                ("probe.ask", {"question": "why"}),
                ("probe.answer", {"call_id": "x", "answer": "y"}),
                ("pomodoro.start", {"minutes": self.random.choice([1, 2])}),
                ("pomodoro.start", {"minutes": 1}),
                ("pomodoro.interrupt", {}),
            ]
        )
        self._number += 1
        call = (
            self.random.choice(AGENTS),
            self.random.choice(CONVERSATIONS),
            f"c{self._number}",
            method,
            params,
        )
        self.calls.append(call)
        await self._speak(call, call[2])

    async def _speak(self, call: tuple[str, str, str, str, dict[str, Any]], key: str) -> None:
        agent, conversation_id, call_id, method, params = call
        self.told.append(f"  {agent} {conversation_id} {call_id} {method} {params}")
        known = self.world._inventory(agent, conversation_id)  # pyright: ignore[reportPrivateUsage]
        stale = known is None or self.random.random() < 0.05
        revision = "inv_0000000000000000" if stale or known is None else known["revision"]
        about: dict[str, Any] = {"agent": agent, "conversation_id": conversation_id}
        await self.world.invoke(method, params, call_id, key=key, revision=revision, **about)

    async def repeat(self) -> None:
        """The same call under another message, or its id with other parameters."""
        if not self.calls:
            return
        call = self.random.choice(self.calls)
        if self.random.random() < 0.3:
            call = (*call[:4], {**call[4], "text": "other"})
        self._number += 1
        await self._speak(call, f"again-{self._number}")

    async def cancel(self) -> None:
        if not self.calls:
            return
        agent, conversation_id, call_id, method, _ = self.random.choice(self.calls)
        self._number += 1
        self.told.append(f"  {call_id}")
        head = FromAgent(f"env-x{self._number}", "2026-01-02T03:04:05Z", Actor.parse(agent), conversation_id)
        envelope = tool_cancel(head, app_scope=method.partition(".")[0], call_id=call_id)
        about = {"agent": agent, "conversation_id": conversation_id}
        self.world.say(envelope, f"cancel-{self._number}", **about)

    async def person(self) -> None:
        """What a host reports: late, twice, never or about something else; and what a person does."""
        host = self.world.simulated
        choice = self.random.randrange(6)
        self.told.append(f"  {choice}")
        if choice < 2:
            host.manner = self.random.choice(list(Manner))
        elif choice == 2 and host.showings:
            await host.confirm(self.random.choice(host.showings[-3:]))
        elif choice == 3:
            kind = self.random.choice([IntentKind.SHOW_CHAT, IntentKind.OPEN_CONVERSATION, IntentKind.HIDDEN])
            await host.person(kind, self.random.choice(CONVERSATIONS))
        elif choice == 4 and host.showings:
            kind = self.random.choice([IntentKind.CLOSE_APP, IntentKind.SHOW_APP])
            showing = self.random.choice(host.showings)
            await host.person(kind, showing.conversation_id, showing.instance_id)
        else:
            scope = self.random.choice(["probe", "pomodoro"])
            await host.told.app_chosen(host.session_id, scope, self.random.choice(CONVERSATIONS))

    async def answer(self) -> None:
        if self.world.simulated.sheets:
            sheet = self.random.choice(self.world.simulated.sheets)
            allowed = self.random.random() < 0.6
            await self.world.simulated.told.consent_answered(sheet.call_ref, allowed=allowed)

    async def pass_time(self) -> None:
        seconds = self.random.choice([0.05, 1, 5, 16, 40, 70])
        self.told.append(f"  {seconds}")
        await self.world.clock.advance(seconds)

    async def link(self) -> None:
        """The server goes and comes, or takes what it does not acknowledge."""
        server = self.world.server
        match self.random.randrange(3):
            case 0:
                server.cut(reachable=False)
            case 1:
                server.lose_answers = True
            case _:
                server.lose_answers = False
                server.cut(reachable=True)

    async def crash(self) -> None:
        """A new process on the same data, perhaps one that will fail at some site."""
        plan = ""
        if self.random.random() < 0.7:
            sites = [site for site in FaultSite if site.startswith("device.") and not site.startswith(OTHERS)]
            site = str(self.random.choice(sites))
            mode = "raise"
            if site in LOSING:
                mode = self.random.choice(["raise", "lost_ack"])
            plan = f"{site}:{mode}:{self.random.randrange(1, 4)}"
        self.told.append(f"  {plan}")
        await self.restart(Faults(FaultSite, plan))

    async def restart(self, faults: Faults) -> None:
        reachable, self.world.server.reachable = self.world.server.reachable, True
        await self.world.restart(faults=faults)
        self.decisions.append(decide_twice(self.world.runtime.room))
        if not reachable:
            self.world.server.cut(reachable=False)

    async def switch_app(self) -> None:
        registry = self.world.runtime.registry
        app = registry.apps.get("probe")
        if app is not None:
            await (registry.disable if app.enabled else registry.enable)("probe")

    async def set_clock(self) -> None:
        seconds = self.random.choice([-3600, 3600, -5, 86_400])
        self.told.append(f"  {seconds}")
        self.world.clock.jump(seconds)

    async def disorder(self) -> list[str]:
        """Commands that began before one of their conversation that had arrived earlier. Wall clocks do not
        tell: they were set.
        """
        found: list[str] = []
        last: dict[str, int] = {}
        for conversation_id, call_id in await self.world.rows(
            "SELECT conversation_id, call_id FROM calls WHERE method = 'probe.add' ORDER BY arrival"
        ):
            if call_id in self.begun:
                place = self.begun.index(call_id)
                if place < last.get(conversation_id, 0):
                    found.append(f"command {call_id} began too early")
                last[conversation_id] = place
        return found

    async def heal(self) -> None:
        """Everything works from now on, and time enough passes for all that waits."""
        world = self.world
        world.simulated.manner = Manner.AT_ONCE
        world.server.lose_answers = False
        world.server.reachable = True
        await self.restart(Faults(FaultSite))
        for _ in range(60):
            await world.clock.advance(10)
            ((live,),) = await world.rows("SELECT COUNT(*) FROM calls WHERE ended_at IS NULL")
            if not live and not world.runtime.outbox_waiting:
                break
        await world.clock.advance(2)


async def violations_in(seed: int, folder: Path) -> tuple[list[str], int]:
    """What went wrong in the history of this seed, told with it; and how many decisions were made twice."""
    script = Script()
    settings: dict[str, Any] = {"sweep_seconds": 30.0}
    async with device_world(folder, apps=apps(folder / "brought"), script=script, **settings) as world:
        history = History(world, script, seed)
        await history.run()
        found = await violations_of(world) + await history.disorder()
        if found:
            found += ["history:", *history.told, "messages:", described(world)]
        return found, sum(len(one) for one in history.decisions)
