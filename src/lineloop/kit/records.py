"""Records: frozen, slotted dataclasses whose class is made quickly.

`@record` means what `@dataclass(frozen=True, slots=True)` means, and the functions of `dataclasses` work on
both. The standard decorator compiles six methods for every class while its module is imported, a millisecond
each time, which for some hundreds of records was a quarter of a start (benchmark B8). Here records share all
methods but the initializer, and that one is compiled when the first instance is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """A frozen dataclass with slots: equal and hashed by its fields, with `repr` and pattern matching.

    Methods that the class defines itself stay. `order` and keyword-only fields are not offered.
    """
    own = cls.__dict__
    cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise dataclass works out a signature, for as long again
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    names = [one.name for one in fields(made) if one.compare]  # pyright: ignore[reportArgumentType]
    values: Callable[[Any], Any] = attrgetter(*names) if names else _nothing

    def equal(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    def first_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init = _initializer(made)
        type.__setattr__(made, "__init__", init)
        init(self, *args, **kwargs)

    methods: dict[str, Any] = {"__init__": first_init, "__repr__": _shown, "__reduce__": _reduced}
    methods |= {"__setattr__": _refuse_setting, "__delattr__": _refuse_deleting}
    if "__eq__" not in own:
        methods |= {"__eq__": equal, "__hash__": hashed}
    for name, method in methods.items():
        if name not in own:
            setattr(made, name, method)
    return made


def _initializer(cls: Any) -> Callable[..., None]:
    """Compiles `__init__`: fields in order, defaults, then `__post_init__`."""
    names: dict[str, Any] = {"_missing": MISSING}
    parameters: list[str] = []
    lines: list[str] = []
    for one in fields(cls):
        name = one.name
        # A slot's own setter: the record refuses the usual one, and this is quicker than object's.
        names[f"_set_{name}"] = getattr(cls, name).__set__
        value = name
        if one.default_factory is not MISSING:
            names[f"_make_{name}"] = one.default_factory
            value = f"_make_{name}() if {name} is _missing else {name}" if one.init else f"_make_{name}()"
        elif one.default is not MISSING:
            names[f"_default_{name}"] = one.default
            value = name if one.init else f"_default_{name}"
        elif not one.init:
            continue
        if one.init:
            parameters.append(name + _default_of(one))
        lines.append(f"_set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(['self', *parameters])}):\n {body}", names)  # noqa: S102 (field names only)
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _default_of(one: Any) -> str:
    if one.default_factory is not MISSING:
        return "=_missing"
    return f"=_default_{one.name}" if one.default is not MISSING else ""


def _nothing(_: object) -> tuple[()]:
    return ()


def _shown(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse_setting(_: Any, name: str, __: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(_: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _reduced(self: Any) -> tuple[Any, ...]:
    return _restored, (self.__class__, [getattr(self, one.name) for one in fields(self)])


def _restored(cls: Any, values: list[Any]) -> Any:
    """A copied or unpickled record, as the original was when it was taken."""
    made = object.__new__(cls)
    for one, value in zip(fields(cls), values, strict=True):
        object.__setattr__(made, one.name, value)
    return made
