"""Ids: form, order, and randomness that a test can repeat."""

from __future__ import annotations

import random
import threading
import uuid

import pytest

from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids
from lineloop.testing import FakeClock


@pytest.mark.requirement("K17")
async def test_ids_increase_while_the_clock_stands_still_or_goes_back() -> None:
    clock = FakeClock()
    ids = Ids(clock)
    made: list[str] = []
    for step in range(3000):
        if step == 1000:
            await clock.advance(1)
        if step == 2000:
            clock.jump(-3600)
        made.append(ids.uuid7())
    assert made == sorted(set(made))


@pytest.mark.requirement("K17")
def test_an_id_is_a_version_7_uuid_that_carries_its_time() -> None:
    clock = FakeClock(now_ms=0x0123456789AB)
    value = uuid.UUID(Ids(clock).uuid7())
    assert value.version == 7
    assert value.variant == uuid.RFC_4122
    assert value.int >> 80 == 0x0123456789AB
    prefix, digits = Ids(clock).make("ses").split("_")
    assert prefix == "ses"
    assert uuid.UUID(digits).version == 7


@pytest.mark.requirement("K17")
def test_an_injected_randomness_repeats_the_ids_and_none_does_not() -> None:
    clock = FakeClock()

    def made(seed: int | None) -> tuple[str, str]:
        ids = Ids(clock, random.Random(seed) if seed is not None else None)
        return ids.make("call"), ids.secret()

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert made(None) != made(None)
    assert len(Ids(clock).secret(32)) == 43


@pytest.mark.requirement("K17")
def test_ids_made_on_several_threads_are_all_different() -> None:
    ids = Ids(SystemClock())
    made: list[str] = []

    def make() -> None:
        made.extend([ids.uuid7() for _ in range(2000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000
