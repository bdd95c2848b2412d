"""The demo adapter: the agent loop around a script instead of a model. It labels itself, in meta and in
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from lineloop.harness.adapters.port import Cancel, Reference, Replay, RunIO, RunRequest, RunResult
from lineloop.harness.agent_loop import run_agent_loop
from lineloop.harness.demo.speech import DEMO_LABEL

if TYPE_CHECKING:
    from lineloop.harness.demo.script import DemoScript


class DemoAdapter:
    """An `Adapter` that needs no model, no network and no key. Its blocks are named by step, so it sets
    them again.
    """

    name: ClassVar[str] = "demo"
    replay: ClassVar[Replay] = Replay.SNAPSHOT
    cancel: ClassVar[Cancel] = Cancel.ACKNOWLEDGED
    label: ClassVar[str] = DEMO_LABEL

    @cached_property
    def _script(self) -> DemoScript:
        # Late: what it knows of words takes a while to read, and only a Run needs it.
        from lineloop.harness.demo.script import DemoScript

        return DemoScript()

    async def run(self, request: RunRequest, io: RunIO) -> RunResult:
        return await run_agent_loop(self._script, request, io)

    async def resume(
        self,
        request: RunRequest,
        references: Sequence[Reference],  # noqa: ARG002 (part of the port: the demo owns nothing elsewhere)
        io: RunIO,
    ) -> RunResult:
        return await run_agent_loop(self._script, request, io)

    async def repair(
        self,
        request: RunRequest,  # noqa: ARG002 (part of the port)
        invalid: Any,  # noqa: ARG002
        problem: str,  # noqa: ARG002
        io: RunIO,  # noqa: ARG002
    ) -> RunResult | None:
        """A script says the same again, so there is nothing to repair."""
        return None
