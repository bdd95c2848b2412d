"""The judge: every rule over one history and one reading."""

from __future__ import annotations

from lineloop.testing.history.inboxes import inbox_violations
from lineloop.testing.history.messages import message_violations
from lineloop.testing.history.operations import History
from lineloop.testing.history.outcomes import outcome_violations
from lineloop.testing.history.reading import Reading
from lineloop.testing.history.verdicts import Violation
from lineloop.testing.history.views import view_violations


def check(history: History, reading: Reading, *, healed: bool = True) -> list[Violation]:
    """Everything that is broken, none for a sound history. `healed`: nothing may be left waiting."""
    return [
        *message_violations(history, reading, healed=healed),
        *inbox_violations(history, reading, healed=healed),
        *outcome_violations(history, reading, healed=healed),
        *view_violations(history, reading, healed=healed),
    ]
