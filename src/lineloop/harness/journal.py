"""A Run's journal in memory: what earlier attempts recorded. Decides nothing; the ledger is the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lineloop.harness.adapters.port import Reference
from lineloop.harness.port import StoredEntry

SUBMITTED = "submitted"
ATTEMPT = "attempt"
TOOLS = "tools"
TOOL_DISPATCHED = "tool.dispatched"
TOOL_RECEIPT = "tool.receipt"
TOOL_RESULT = "tool.result"
REFERENCE = "reference"
SUBMITTING = "submitting"
RETRY = "retry"
OUTPUT_INVALID = "output.invalid"
CANCEL_REQUESTED = "cancel.requested"
ENDED = "ended"

_CALL_TYPES = frozenset({TOOL_DISPATCHED, TOOL_RECEIPT, TOOL_RESULT})


def _belongs(name: str, key: str) -> bool:
    return name == key or name.startswith(f"{key}/")


class Journal:
    """Entries of one Run by (type, key)."""

    def __init__(self, entries: Iterable[StoredEntry]) -> None:
        self._by_key: dict[tuple[str, str], StoredEntry] = {}
        self._references: list[Reference] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: StoredEntry) -> None:
        if entry.key is not None:
            self._by_key[(entry.type, entry.key)] = entry
        if entry.type == REFERENCE and entry.native_id is not None:
            self._references.append(Reference(entry.native_id, entry.facts))

    def find(self, entry_type: str, key: str) -> StoredEntry | None:
        return self._by_key.get((entry_type, key))

    def content(self, entry_type: str, key: str) -> Any:
        entry = self.find(entry_type, key)
        return None if entry is None else entry.content

    def latest(self, entry_type: str, key: str) -> StoredEntry | None:
        """The entry under `key`, or under the highest `key/<n>`."""
        under = [
            entry
            for (kind, name), entry in self._by_key.items()
            if kind == entry_type and _belongs(name, key)
        ]
        return max(under, key=lambda entry: entry.seq, default=None)

    def of_calls(self, keys: Sequence[str]) -> list[StoredEntry]:
        """Everything recorded about these calls, in order."""
        return sorted(
            (
                entry
                for (kind, name), entry in self._by_key.items()
                if kind in _CALL_TYPES and any(_belongs(name, key) for key in keys)
            ),
            key=lambda entry: entry.seq,
        )

    @property
    def references(self) -> Sequence[Reference]:
        """Native executions, in the order in which they were noted."""
        return tuple(self._references)
