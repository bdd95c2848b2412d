"""Decides what a person sees first (design: runtime 3.9).

In this order: what they asked for (a link, a notification), the work that was in front when the process
ended, their default app, chat. What cannot be shown is explained, and chat is shown instead: chat needs
nothing that could be missing, so it is also where a person recovers.
"""

from __future__ import annotations

from enum import StrEnum

from lineloop.device.decide.state import App, Instance
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode


class EntryKind(StrEnum):
    TARGET = "target"
    RECOVERED = "recovered"
    DEFAULT = "default"
    CHAT = "chat"


@record
class StartEntry:
    """What is shown first. `reason` is the code of why `app_scope`, which should have been, is not."""

    kind: EntryKind
    app_scope: str | None = None
    conversation_id: str | None = None
    instance_id: str | None = None
    reason: str | None = None


@record
class Wanted:
    """An app that should be shown, as the registry knows it; `app` is None when it does not."""

    app_scope: str
    app: App | None

    @property
    def refusal(self) -> str | None:
        """The code of why it cannot be opened."""
        if self.app is None:
            return str(ErrorCode.APP_NOT_INSTALLED)
        if not self.app.enabled:
            return str(ErrorCode.APP_DISABLED)
        return self.app.unavailable


def decide_start(
    target: Wanted | None, front: Instance | None, default: Wanted | None, conversation_id: str | None
) -> StartEntry:
    """What is shown first; opening it is the caller's. `conversation_id` is where an app would be opened."""
    kind, wanted = (EntryKind.TARGET, target) if target is not None else (EntryKind.DEFAULT, default)
    if target is None and front is not None:
        return StartEntry(EntryKind.RECOVERED, front.app_scope, front.conversation_id, front.instance_id)
    if wanted is None:
        return StartEntry(EntryKind.CHAT, None, conversation_id)
    reason = wanted.refusal
    if reason is None and conversation_id is None:
        reason = str(ErrorCode.CONVERSATION_NOT_FOUND)
    if reason is not None:
        return StartEntry(EntryKind.CHAT, wanted.app_scope, conversation_id, reason=reason)
    return StartEntry(kind, wanted.app_scope, conversation_id)
