"""Which model answers, as the person chose it.

Decides where a choice is kept and what may be chosen; the harness decides how a model is spoken to.
"""

from __future__ import annotations

from lineloop.device.models import FoundServer, ModelInUse
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.settings import DEMO_MODEL

DEMO_LABEL = "demo, not AI"


class LocalModels:
    """Implements ModelChoice for a system on this machine."""

    def __init__(self) -> None:
        self._chosen = False

    def current(self) -> ModelInUse:
        return ModelInUse(DEMO_MODEL, DEMO_LABEL, self._chosen)

    async def find(self) -> list[FoundServer]:
        return []

    async def choose(self, target: str, key: str | None = None) -> ModelInUse:  # noqa: ARG002
        """Uses `target` from now on. Raises LoopError harness_target_unknown."""
        if target != DEMO_MODEL:
            raise LoopError(f"there is no model {target!r}", code=ErrorCode.HARNESS_TARGET_UNKNOWN)
        self._chosen = True
        return self.current()
