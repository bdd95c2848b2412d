"""Histories and their judge: what clients did and were told, held against what the server has in the end.

    history = History()
    history.add(Spoke(…))            # each attempt, with what became of it
    violations = check(history, Reading(messages=…, questions=…, cursors=…))

A load, a fault test or a model test records operations while it runs and reads the server once at the end.
Decides what may never happen (the rules of `verdicts.Rule`); leaves to the recorder how the server is
reached.
"""

from lineloop.testing.history.check import check
from lineloop.testing.history.operations import (
    Answered,
    Appended,
    Asked,
    Committed,
    Delivered,
    Ended,
    History,
    Operation,
    Outcome,
    Polled,
    Seen,
    Sight,
    Spoke,
    Viewed,
    Watched,
    fingerprint,
)
from lineloop.testing.history.reading import Cursor, Reading, Stored, StoredQuestion, stored_message
from lineloop.testing.history.verdicts import Rule, Violation

__all__ = [
    "Answered",
    "Appended",
    "Asked",
    "Committed",
    "Cursor",
    "Delivered",
    "Ended",
    "History",
    "Operation",
    "Outcome",
    "Polled",
    "Reading",
    "Rule",
    "Seen",
    "Sight",
    "Spoke",
    "Stored",
    "StoredQuestion",
    "Viewed",
    "Violation",
    "Watched",
    "check",
    "fingerprint",
    "stored_message",
]
