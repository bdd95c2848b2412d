"""Batching of link writes: what travels together, and what a broken connection means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lineloop.client.batches import (
    MAX_BROKEN,
    MAX_FRAME_ITEMS,
    MAX_FRAME_WEIGHT,
    Batches,
    ItemKind,
    LinkItem,
)
from lineloop.protocol.errors import ConnectionLost, LoopError, Overloaded


class Heard:
    """An answer's place that remembers."""

    def __init__(self) -> None:
        self.result: dict[str, Any] | None = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def set_result(self, result: dict[str, Any], /) -> None:
        self.result = result

    def set_exception(self, exception: BaseException, /) -> None:
        self.error = exception


def item(name: str, kind: ItemKind = ItemKind.SPEAK, size: int = 10) -> tuple[LinkItem, Heard]:
    heard = Heard()
    return LinkItem(kind, json.dumps({"key": name, "text": "x" * size}), heard), heard


def keys(frame: str | None, kind: str = "speak") -> list[str]:
    assert frame is not None
    return [one["key"] for one in json.loads(frame).get(kind, [])]


def id_of(frame: str | None) -> int:
    assert frame is not None
    return json.loads(frame)["id"]


def test_everything_that_waits_travels_in_one_frame_in_order() -> None:
    batches = Batches()
    for name in "abc":
        batches.add(item(name)[0])
    assert keys(batches.next_frame()) == ["a", "b", "c"]
    assert batches.next_frame() is None


def test_what_queues_while_enough_frames_are_in_flight_goes_into_the_next_one() -> None:
    batches = Batches(frames_in_flight=1)
    batches.add(item("a")[0])
    first = batches.next_frame()
    assert first is not None
    batches.add(item("b")[0])
    batches.add(item("c")[0])
    assert batches.next_frame() is None
    assert batches.acknowledge(id_of(first), [{"ok": True}])
    assert keys(batches.next_frame()) == ["b", "c"]


def test_results_come_in_the_order_speak_commit_patches_end_whatever_the_order_of_queueing() -> None:
    batches = Batches()
    ended, committed, spoken = (
        item("e", ItemKind.END),
        item("c", ItemKind.COMMIT),
        item("s", ItemKind.SPEAK),
    )
    for one, _ in (ended, committed, spoken):
        batches.add(one)
    frame = batches.next_frame()
    assert frame is not None
    batches.acknowledge(id_of(frame), [{"n": "speak"}, {"n": "commit"}, {"n": "end"}])
    assert [heard.result for _, heard in (spoken, committed, ended)] == [
        {"n": "speak"},
        {"n": "commit"},
        {"n": "end"},
    ]


def test_an_error_result_is_raised_for_its_item_alone() -> None:
    batches = Batches()
    bad, good = item("a"), item("b")
    batches.add(bad[0])
    batches.add(good[0])
    frame = batches.next_frame()
    assert frame is not None
    batches.acknowledge(id_of(frame), [{"error": {"code": "key_conflict", "detail": "no"}}, {"ok": True}])
    assert isinstance(bad[1].error, LoopError)
    assert bad[1].error.code == "key_conflict"
    assert good[1].result == {"ok": True}


def test_results_that_do_not_fit_the_frame_are_not_handed_out() -> None:
    batches = Batches()
    one, heard = item("a")
    batches.add(one)
    frame = batches.next_frame()
    assert frame is not None
    assert not batches.acknowledge(id_of(frame), [])
    assert not batches.acknowledge(99, [{"ok": True}])
    assert not heard.done()


def test_after_a_break_the_unacknowledged_items_come_first_and_in_order() -> None:
    batches = Batches(frames_in_flight=2)
    batches.add(item("a")[0])
    batches.next_frame()
    batches.add(item("b")[0])
    batches.next_frame()
    batches.add(item("c")[0])
    batches.connection_broken()
    assert keys(batches.next_frame()) == ["a", "b", "c"]


def test_an_item_that_breaks_every_connection_fails_and_takes_no_other_with_it() -> None:
    batches = Batches()
    poison, poisoned = item("poison")
    other, heard = item("other")
    batches.add(poison)
    batches.add(other)
    for _ in range(MAX_BROKEN - 1):
        assert keys(batches.next_frame()) == ["poison", "other"]
        batches.connection_broken()
    assert keys(batches.next_frame()) == ["poison"]
    assert batches.next_frame() is None, "a suspect flies alone"
    batches.connection_broken()
    assert isinstance(poisoned.error, ConnectionLost)
    frame = batches.next_frame()
    assert keys(frame) == ["other"]
    assert frame is not None
    batches.acknowledge(id_of(frame), [{"ok": True}])
    assert heard.result == {"ok": True}


def test_a_frame_is_bounded_in_items_and_in_size() -> None:
    batches = Batches()
    for number in range(MAX_FRAME_ITEMS + 1):
        batches.add(item(str(number))[0])
    assert len(keys(batches.next_frame())) == MAX_FRAME_ITEMS
    large = Batches()
    for name in "abc":
        large.add(item(name, size=MAX_FRAME_WEIGHT // 2 - 100)[0])
    assert keys(large.next_frame()) == ["a", "b"]
    assert keys(large.next_frame()) == ["c"]


def test_a_full_queue_refuses_with_a_code_that_says_try_later() -> None:
    batches = Batches(queue_limit=1)
    batches.add(item("a")[0])
    with pytest.raises(Overloaded) as caught:
        batches.add(item("b")[0])
    assert caught.value.retryable


def test_a_refused_frame_fails_each_of_its_items() -> None:
    batches = Batches()
    one, heard = item("a")
    batches.add(one)
    frame = batches.next_frame()
    assert frame is not None
    assert batches.refuse(id_of(frame), Overloaded("full"))
    assert isinstance(heard.error, Overloaded)
    assert not batches.refuse(None, Overloaded("full"))


def test_an_answer_to_a_waiter_that_has_gone_changes_nothing() -> None:
    one, heard = item("a")
    one.resolve({"ok": True})
    one.fail(ConnectionLost("late"))
    one.resolve({"error": {"code": "internal"}})
    assert heard.result == {"ok": True}
    assert heard.error is None
