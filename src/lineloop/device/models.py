"""What a device knows about the model that answers, and how the person chooses another.

Decides the shapes only; which servers are looked for and where a choice is kept is the composition's affair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from lineloop.kit.records import record


@record
class ModelInUse:
    """The model that answers now. `target` as in LINELOOP_MODEL; `chosen` = a person or the environment said
    so, else it is what there was.
    """

    target: str
    label: str
    chosen: bool

    def to_wire(self) -> dict[str, Any]:
        return {"target": self.target, "label": self.label, "chosen": self.chosen}


@record
class FoundServer:
    """A model server on this machine that answered. `models` are the names it serves."""

    id: str
    label: str
    base_url: str
    models: tuple[str, ...]

    def to_wire(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "label": self.label,
            "base_url": self.base_url,
            "models": list(self.models),
        }


class ModelChoice(Protocol):
    """Finds and chooses models. A key that is given never comes back."""

    def current(self) -> ModelInUse: ...

    async def find(self) -> list[FoundServer]:
        """The model servers that answer now; bounded in time."""
        ...

    async def choose(self, target: str, key: str | None = None) -> ModelInUse:
        """Uses `target` from now on. Raises LoopError: invalid_request, harness_target_unknown."""
        ...


class AnnouncedModels:
    """A ModelChoice that calls `on_chosen` after every successful choice."""

    def __init__(self, models: ModelChoice, on_chosen: Callable[[], None]) -> None:
        self._models = models
        self._on_chosen = on_chosen

    def current(self) -> ModelInUse:
        return self._models.current()

    async def find(self) -> list[FoundServer]:
        return await self._models.find()

    async def choose(self, target: str, key: str | None = None) -> ModelInUse:
        chosen = await self._models.choose(target, key)
        self._on_chosen()
        return chosen
