"""What the server counts about itself, in the Prometheus text format.

Counting is adding to a number here; the library that knows the format is loaded when somebody first asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lineloop.kit.measures import CommitMeasures
from lineloop.protocol.machines import LIVE_RUN_PHASES
from lineloop.server.store.figures import Figures
from lineloop.server.wakeup.relay import RelayFigures

NO_ROUTE = "none"
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
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self.links = Gauge("lineloop_links", "Open links")
        self.viewers = Gauge("lineloop_viewers", "Open conversation streams")
        self.commits = Gauge("lineloop_database_commits", "Transactions committed by this process")
        self.relay: list[Gauge] = []
        self.open: list[Gauge] = []
        self._runs: dict[str, int] = {}
        self._committed: CommitMeasures | None = None
        self._refused: dict[str, int] = {}

    def committed(self, measures: CommitMeasures) -> None:
        """Takes over what the database measured."""
        self._committed = measures

    def refused(self, by_code: Mapping[str, int]) -> None:
        """Takes over how often something was refused, by the code of the refusal."""
        self._refused = dict(by_code)

    def relayed(self, figures: RelayFigures) -> None:
        """Takes over what the relay counted."""
        self.relay = [
            Gauge("lineloop_relay_connected", "Whether hints reach other replicas", float(figures.connected)),
            Gauge("lineloop_relay_hints_sent", "Hints sent to other replicas", figures.sent),
            Gauge("lineloop_relay_hints_received", "Hints heard from other replicas", figures.received),
            Gauge("lineloop_relay_hints_dropped", "Hints nobody elsewhere was told", figures.dropped),
            Gauge("lineloop_relay_breaks", "Times the way to other replicas broke", figures.breaks),
        ]

    def opened(self, figures: Figures) -> None:
        """Takes over what the database counted."""
        self.open = [
            Gauge("lineloop_streams_open", "Messages that are being written", figures.streams),
            Gauge("lineloop_questions_open", "Questions that wait for a person", figures.questions),
            Gauge(
                "lineloop_resources_late", "Conversations whose resource is not yet told", figures.to_notify
            ),
        ]
        self._runs = {str(phase): figures.runs.get(phase, 0) for phase in LIVE_RUN_PHASES}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Counts one answer. `route` is the name of its endpoint, so that ids make no new numbers."""
        self._requests[route, status] += 1
        self._seconds[route] += seconds  # pyright: ignore[reportArgumentType]

    def text(self) -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)  # pyright: ignore[reportArgumentType]
        return generate_latest(registry)

    def collect(self) -> Iterator[Any]:
        """The numbers as the library wants them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily(
            "lineloop_http_requests", "HTTP requests answered", labels=["route", "status"]
        )
        for (route, status), count in sorted(self._requests.items()):
            requests.add_metric([route, str(status)], count)
        yield requests
        seconds = CounterMetricFamily(
            "lineloop_http_request_seconds", "Time from request to answer, in all", labels=["route"]
        )
        for route, spent in sorted(self._seconds.items()):
            seconds.add_metric([route], spent)
        yield seconds
        runs = GaugeMetricFamily("lineloop_runs_open", "Runs that have not ended", labels=["phase"])
        for phase, count in self._runs.items():
            runs.add_metric([phase], count)
        yield runs
        refused = CounterMetricFamily(
            "lineloop_refusals", "Refusals that are noted for an administrator", labels=["code"]
        )
        for code, count in sorted(self._refused.items()):
            refused.add_metric([code], count)
        yield refused
        yield from _of_commits(self._committed)
        for gauge in (self.links, self.viewers, self.commits, *self.relay, *self.open):
            yield GaugeMetricFamily(gauge.name, gauge.words, value=gauge.value)


def _of_commits(measures: CommitMeasures | None) -> Iterator[Any]:
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    if measures is None:
        return
    for name, words, histogram in (
        ("seconds", "From the begin of a transaction until it was durable", measures.seconds),
        ("jobs", "Jobs that shared a transaction", measures.jobs),
    ):
        steps = [(floatToGoString(bound), count) for bound, count in histogram.steps()]
        yield HistogramMetricFamily(
            f"lineloop_database_commit_{name}", words, buckets=steps, sum_value=histogram.total
        )
