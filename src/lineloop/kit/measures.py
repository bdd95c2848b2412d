"""Numbers of how often something took how long, for whoever watches a process.

Decides how values are counted in steps. Leaves names and formats to whoever shows them. One thread adds to a
histogram; any may read it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
JOBS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


@dataclass(slots=True)
class Histogram:
    """How many values were at most each of `bounds`, ascending; `total` is the sum of all."""

    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def steps(self) -> list[tuple[float, int]]:
        """(bound, values at most that large), at last (infinity, all of them)."""
        return list(zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True))


class CommitMeasures:
    """Of committed transactions: seconds from the first job's begin until it was durable, and how many jobs
    shared it.
    """

    def __init__(self) -> None:
        self.seconds = Histogram(SECONDS)
        self.jobs = Histogram(JOBS)

    def add(self, seconds: float, jobs: int) -> None:
        self.seconds.add(seconds)
        self.jobs.add(jobs)

    @classmethod
    def summed(cls, several: Iterable[CommitMeasures]) -> CommitMeasures:
        """What several writers measured, together."""
        whole = cls()
        for one in several:
            for mine, its in ((whole.seconds, one.seconds), (whole.jobs, one.jobs)):
                mine.counts = [a + b for a, b in zip(mine.counts, its.counts, strict=True)]
                mine.total += its.total
        return whole
