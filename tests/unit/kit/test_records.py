"""A record is a frozen dataclass with slots, in everything that can be seen of it."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from lineloop.kit.records import record


@record
class Point:
    """Two numbers and what is said of them."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list[str], compare=False)
    hidden: str = field(default="h", repr=False)


@dataclass(frozen=True, slots=True)
class StandardPoint:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list[str], compare=False)
    hidden: str = field(default="h", repr=False)


@record
class Named(Point):
    name: str = ""
    length: int = field(init=False, default=7)


@record
class Checked:
    x: int

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("negative")


@record
class Empty:
    pass


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {}), ((1, 3), {}), ((1,), {"y": 4, "tags": ["a"]}), ((), {"x": 5, "hidden": "s"})],
)
def test_a_record_has_the_values_words_and_hash_of_the_dataclass(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    mine, standard = Point(*args, **kwargs), StandardPoint(*args, **kwargs)
    assert asdict(mine) == asdict(standard)
    assert repr(mine) == repr(standard).replace("StandardPoint", "Point")
    assert hash(mine) == hash(standard)
    assert [one.name for one in fields(mine)] == [one.name for one in fields(standard)]
    assert Point.__match_args__ == StandardPoint.__match_args__  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def test_records_are_equal_by_the_fields_that_count() -> None:
    assert Point(1) == Point(1, tags=["other"])
    assert Point(1) != Point(2)
    assert Point(1) != StandardPoint(1)
    assert {Point(1), Point(1)} == {Point(1)}
    assert Empty() == Empty()


def test_defaults_are_made_anew_for_each_record() -> None:
    Point(1).tags.append("a")
    assert Point(1).tags == []


def test_a_record_cannot_be_changed_and_has_no_other_attributes() -> None:
    point: Any = Point(1)
    for change in (
        lambda: setattr(point, "x", 2),
        lambda: setattr(point, "z", 2),
        lambda: delattr(point, "x"),
    ):
        with pytest.raises(FrozenInstanceError):
            change()
    assert not hasattr(point, "__dict__")
    assert point.x == 1


@pytest.mark.parametrize("arguments", [(), (1, 2, [], "h", 5)])
def test_wrong_arguments_are_a_type_error(arguments: tuple[Any, ...]) -> None:
    make: Any = Point
    for _ in range(2):
        with pytest.raises(TypeError, match=r"__init__\(\)"):
            make(*arguments)


def test_a_record_may_extend_a_record() -> None:
    named = Named(1, name="n")
    assert (named.x, named.y, named.name, named.length) == (1, 2, "n", 7)
    assert named != Point(1)
    assert repr(Named(1)) == "Named(x=1, y=2, tags=[], name='', length=7)"


def test_what_follows_the_fields_is_run() -> None:
    with pytest.raises(ValueError, match="negative"):
        Checked(-1)
    with pytest.raises(ValueError, match="negative"):
        replace(Checked(1), x=-1)


def test_the_tools_of_dataclasses_copies_and_patterns_work() -> None:
    point = replace(Point(1, tags=["a"]), y=9)
    assert is_dataclass(point)
    assert asdict(point) == {"x": 1, "y": 9, "tags": ["a"], "hidden": "h"}
    for again in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (again, again.tags) == (point, ["a"])
    match point:
        case Point(x=x, y=9):
            assert x == 1
        case _:
            raise AssertionError
