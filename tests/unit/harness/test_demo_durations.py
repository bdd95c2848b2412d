"""Lengths of time in the words of people."""

from __future__ import annotations

import pytest

from lineloop.harness.demo.durations import find_durations, find_numbers, normalise
from lineloop.harness.demo.spoken_time import spoken

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1 minute", MINUTE),
        ("90 seconds", 90 * SECOND),
        ("half an hour", 30 * MINUTE),
        ("an hour and a half", 90 * MINUTE),
        ("two and a half hours", 150 * MINUTE),
        ("a quarter of an hour", 15 * MINUTE),
        ("1h30m", 90 * MINUTE),
        ("1 hour 20 minutes", 80 * MINUTE),
        ("1 hour and 20 minutes", 80 * MINUTE),
        ("a 25-minute focus", 25 * MINUTE),
        ("twenty five minutes", 25 * MINUTE),
        ("1.5 hours", 90 * MINUTE),
        ("250 ms", 250),
        ("20 分钟", 20 * MINUTE),
        ("５ 分钟", 5 * MINUTE),
        ("二十分钟", 20 * MINUTE),
        ("一百二十秒", 120 * SECOND),
        ("一个小时", HOUR),
        ("半小时", 30 * MINUTE),
        ("半个小时", 30 * MINUTE),
        ("一个半小时", 90 * MINUTE),
        ("两小时", 2 * HOUR),
        ("1小时零5分", 65 * MINUTE),
        ("一刻钟", 15 * MINUTE),
    ],
)
def test_a_length_of_time_is_understood_in_english_and_chinese(text: str, milliseconds: int) -> None:
    assert [found.milliseconds for found in find_durations(normalise(text))] == [milliseconds]


@pytest.mark.parametrize("text", ["hello", "a mess", "an apple", "version 2", "第三章", "s", "10 monkeys"])
def test_words_that_only_look_like_durations_are_none(text: str) -> None:
    assert find_durations(normalise(text)) == []


def test_numbers_inside_durations_are_not_numbers_of_their_own() -> None:
    assert [int(value) for value, _, _ in find_numbers("20 minutes for 3 people")] == [3]


@pytest.mark.parametrize(
    ("milliseconds", "english", "chinese"),
    [
        (12_345, "12 s", "12 秒"),
        (20 * MINUTE, "20 min", "20 分钟"),
        (90 * SECOND, "1 min 30 s", "1 分 30 秒"),
        (2 * HOUR, "2 h", "2 小时"),
        (0, "0 s", "0 秒"),
    ],
)
def test_a_length_of_time_is_said_shortly(milliseconds: int, english: str, chinese: str) -> None:
    assert spoken(milliseconds, chinese=False) == english
    assert spoken(milliseconds, chinese=True) == chinese


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("start a -5 minute focus", -300_000),
        ("负5分钟", -300_000),
        ("a tea-5 minutes", 300_000),
        ("one 5-minute focus", 300_000),
    ],
)
def test_a_minus_of_its_own_counts_and_a_hyphen_does_not(text: str, milliseconds: int) -> None:
    assert [found.milliseconds for found in find_durations(text)] == [milliseconds]
