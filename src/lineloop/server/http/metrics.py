"""What the server counts about itself, in the Prometheus text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """One registry per server, so that several can live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._by_status: dict[int, Counter] = {}
        self.requests = Counter(
            "lineloop_http_requests", "HTTP requests answered", ["status"], registry=self._registry
        )
        self.links = Gauge("lineloop_links", "Open links", registry=self._registry)
        self.viewers = Gauge("lineloop_viewers", "Open conversation streams", registry=self._registry)
        self.commits = Gauge(
            "lineloop_database_commits", "Transactions committed by this process", registry=self._registry
        )

    def request(self, status: int) -> None:
        """Counts one answer."""
        counter = self._by_status.get(status)
        if counter is None:
            counter = self._by_status[status] = self.requests.labels(str(status))
        counter.inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)
