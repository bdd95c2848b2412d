"""The JSON codec and the measures that limits are checked against."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineloop.kit.backoff import Backoff
from lineloop.kit.json import canonical, dumps, loads, strict_loads
from lineloop.kit.json_size import depth_of_json, size_of_json
from lineloop.kit.limits import TokenBucket
from lineloop.testing import FakeClock

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@pytest.mark.requirement("K19")
@given(values)
def test_what_is_written_reads_back_equal(value: Any) -> None:
    text = dumps(value)
    assert loads(text) == value
    assert strict_loads(text.encode()) == value


@pytest.mark.requirement("K19")
@pytest.mark.parametrize(
    "text",
    [
        "NaN", "[Infinity]", "-Infinity", "1e999",
        '"\\ud800"', '{"\\udfff":1}', '"\ud800"', "", "[1,]", "{'a':1}",
        "[" * 100_000, "\ufeff1", b"\xff", b'"\xed\xa0\x80"',
    ],
)  # fmt: skip
def test_what_another_language_could_not_read_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        loads(text)


@pytest.mark.requirement("K19")
def test_escaped_pairs_and_plain_unicode_are_text() -> None:
    assert loads('"\\ud83d\\ude00 提醒"') == "😀 提醒"
    assert dumps({"a": "😀"}) == '{"a":"😀"}'


@pytest.mark.requirement("K19")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"x"])
def test_what_json_cannot_say_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError):
        dumps(value)


@pytest.mark.requirement("K19")
def test_a_name_twice_is_refused_by_the_strict_reader_only() -> None:
    text = '{"a":1,"b":{"c":1,"c":2}}'
    assert loads(text) == {"a": 1, "b": {"c": 2}}
    with pytest.raises(ValueError, match="'c'"):
        strict_loads(text)


@pytest.mark.requirement("K19")
def test_the_canonical_form_depends_on_the_value_alone() -> None:
    assert canonical({"b": 1.0, "a": [True, "é"]}) == canonical({"a": [True, "é"], "b": 1})
    assert canonical({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    for value in (float("nan"), "\ud800", {1}):
        with pytest.raises(ValueError):
            canonical(value)


@pytest.mark.requirement("K24")
def test_depth_and_size_are_measured_without_recursion() -> None:
    assert [depth_of_json(value, 10) for value in (1, "x", {}, [1], {"a": [{}]})] == [0, 0, 1, 1, 3]
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert depth_of_json(deep, 32) == 33
    assert size_of_json({"a": "é"}) == 10


@pytest.mark.requirement("K24")
async def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    clock = FakeClock()
    bucket = TokenBucket(rate=2, burst=4, clock=clock)
    assert [bucket.take() for _ in range(5)] == [True] * 4 + [False]
    assert bucket.wait_seconds() == 0.5
    await clock.advance(0.5)
    assert bucket.take()
    await clock.advance(3600)
    assert [bucket.take() for _ in range(5)] == [True] * 4 + [False]
    assert bucket.wait_seconds(5) == float("inf")


@pytest.mark.requirement("K24")
@given(st.integers(0, 10_000), st.integers(0, 2**32))
def test_a_delay_grows_within_its_jitter_and_never_beyond_the_limit(attempt: int, seed: int) -> None:
    backoff = Backoff(0.5, 2.0, 30.0, 0.2, random.Random(seed))
    plain = min(0.5 * 2.0 ** min(attempt, 100), 30.0)
    assert plain * 0.8 <= backoff.delay(attempt) <= min(plain * 1.2, 30.0)
