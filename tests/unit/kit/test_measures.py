"""Values counted in steps."""

from __future__ import annotations

from lineloop.kit.measures import CommitMeasures, Histogram


def test_a_value_counts_for_every_step_that_it_does_not_exceed() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        histogram.add(value)
    assert histogram.steps() == [(1.0, 2), (2.0, 3), (float("inf"), 4)]
    assert histogram.total == 10.0


def test_what_several_writers_measured_is_summed_and_theirs_stays() -> None:
    one, two = CommitMeasures(), CommitMeasures()
    one.add(0.003, 4)
    two.add(0.5, 1)
    whole = CommitMeasures.summed([one, two])
    assert whole.seconds.steps()[-1][1] == 2
    assert whole.jobs.total == 5
    assert one.jobs.total == 4
