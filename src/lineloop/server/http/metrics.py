"""What the server counts about itself, in the Prometheus text format.

Counting is adding to a number here; the library that knows the format is loaded when somebody first asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lineloop.server.wakeup.relay import RelayFigures

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Gauge:
    """A number that goes up and down."""

    name: str
    words: str
    value: float = 0

    def inc(self) -> None:
        self.value += 1

    def dec(self) -> None:
        self.value -= 1

    def set(self, value: float) -> None:
        self.value = value


class Metrics:
    """One set of numbers per server, so that several can live in one process. Loop thread only."""

    def __init__(self) -> None:
        self._requests: Counter[int] = Counter()
        self.links = Gauge("lineloop_links", "Open links")
        self.viewers = Gauge("lineloop_viewers", "Open conversation streams")
        self.commits = Gauge("lineloop_database_commits", "Transactions committed by this process")
        self.relay: list[Gauge] = []

    def relayed(self, figures: RelayFigures) -> None:
        """Takes over what the relay counted."""
        self.relay = [
            Gauge("lineloop_relay_connected", "Whether hints reach other replicas", float(figures.connected)),
            Gauge("lineloop_relay_hints_sent", "Hints sent to other replicas", figures.sent),
            Gauge("lineloop_relay_hints_received", "Hints heard from other replicas", figures.received),
            Gauge("lineloop_relay_hints_dropped", "Hints nobody elsewhere was told", figures.dropped),
            Gauge("lineloop_relay_breaks", "Times the way to other replicas broke", figures.breaks),
        ]

    def request(self, status: int) -> None:
        """Counts one answer."""
        self._requests[status] += 1

    def text(self) -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)  # pyright: ignore[reportArgumentType]
        return generate_latest(registry)

    def collect(self) -> Iterator[Any]:
        """The numbers as the library wants them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily("lineloop_http_requests", "HTTP requests answered", labels=["status"])
        for status, count in sorted(self._requests.items()):
            requests.add_metric([str(status)], count)
        yield requests
        for gauge in (self.links, self.viewers, self.commits, *self.relay):
            yield GaugeMetricFamily(gauge.name, gauge.words, value=gauge.value)
