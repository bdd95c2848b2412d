"""What may never happen, by name."""

from __future__ import annotations

from enum import StrEnum

from lineloop.kit.records import record


class Rule(StrEnum):
    """Each is one way in which a history can be broken."""

    LOST = "lost"
    """Acknowledged, and not there at the end."""
    DOUBLED = "doubled"
    """Two messages or questions under one key; two answers to one question."""
    INVENTED = "invented"
    """There, though nobody asked for it."""
    CHANGED = "changed"
    """There, but not as it was acknowledged, or not what its own log makes of it."""
    GAP = "gap"
    """Ordinals or offsets of a conversation are not 1, 2, 3, …"""
    REORDERED = "reordered"
    """Done before the other began, and yet behind it."""
    LATE = "late"
    """An offset became visible after a larger one had been read."""
    STALE = "stale"
    """A read that began after an acknowledgement did not show it."""
    CURSOR_BACK = "cursor_back"
    """A position or a commit went backwards."""
    CURSOR_BEYOND = "cursor_beyond"
    """A commit stands where nobody put it, or beyond what there is."""
    TWO_OUTCOMES = "two_outcomes"
    """More than one terminal state, or open again after one."""
    AFTER_END = "after_end"
    """Something was accepted or shown after the end of a message."""
    VIEW_GAP = "view_gap"
    """A viewer was given a patch that is not the next one, or an older whole."""
    VIEW_DIFFERS = "view_differs"
    """What a viewer has is not what the log makes at that revision."""
    STUCK = "stuck"
    """After healing something still waits: an open question, a stream, an inbox, a viewer behind."""


@record
class Violation:
    """`subject` names what it is about (ids and keys), `words` what was expected and seen."""

    rule: Rule
    subject: str
    words: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.words}"
