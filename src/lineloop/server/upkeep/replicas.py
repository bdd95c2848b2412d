"""How this replica hears of what happens on others: the relay, reading again, and the sweep behind both."""

from __future__ import annotations

from lineloop.kit.clock import Clock
from lineloop.kit.tasks import Tasks
from lineloop.server.commit import Commits
from lineloop.server.upkeep.rereading import Rereading, ViewerSweep
from lineloop.server.wakeup.bus import Bus
from lineloop.server.wakeup.relay import Carrier, Relay


class Replicas:
    """`relay` is None when there is no carrier: then the sweeps do all of it. `origin` names this replica."""

    def __init__(
        self,
        commits: Commits,
        clock: Clock,
        bus: Bus,
        *,
        carrier: Carrier | None,
        origin: str,
        sweep_seconds: float,
    ) -> None:
        self._bus = bus
        self._rereading = Rereading(commits, bus)
        self._sweep = ViewerSweep(commits, clock, bus, sweep_seconds)
        self.relay: Relay | None = None
        if carrier is not None:
            self.relay = Relay(carrier, clock, origin, hear=self._rereading.hear, restored=self._sweep.soon)

    def start(self, tasks: Tasks) -> None:
        tasks.spawn(self._sweep.run(), name="viewer_sweep")
        if self.relay is not None:
            self._bus.relay_to(self.relay.send)
            tasks.spawn(self._rereading.run(), name="rereading")
            tasks.spawn(self.relay.run(), name="relay")
