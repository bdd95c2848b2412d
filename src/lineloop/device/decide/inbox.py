"""The inbox of an app: which messages it is for, which need its word, and what becomes of them.

Decides whether a checked message is kept for an app, whether delivery alone acknowledges it, and what an
acknowledgement or the end of the app does. Never sees raw agent payload: what comes here has passed the
inbound chain (design: runtime 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode

MAX_PAGE = 200

_CRITICAL_PREFIXES = ("lineup.tool.", "lineup.app.", "lineup.capability.")


@record
class InboxMessage:
    """A checked message for one app. `message_id` names it once per app; `payload` is the safe projection.

    `app_session_id` narrows it to one sub-session, None means every session of the app in the conversation.
    """

    app_scope: str
    conversation_id: str
    message_id: str
    type: str
    payload: dict[str, Any]
    call_id: str | None = None
    app_session_id: str | None = None

    @property
    def critical(self) -> bool:
        """Whether the app has to acknowledge it itself (tool calls, patches, results)."""
        return self.type.startswith(_CRITICAL_PREFIXES)


@record
class Receiver:
    """What is known of the app: does it run new things, and what does its manifest ask to see."""

    available: bool
    unavailable_code: ErrorCode
    subscriptions: tuple[str, ...]


@record
class MessageKept:
    """Fact: the message is in the app's inbox at `position`."""

    inbox_id: str
    position: int
    message: InboxMessage


@record
class MessageRefused:
    """Fact: the app does not get the message. A critical one has to be answered with `code`."""

    message: InboxMessage
    code: ErrorCode


@record
class InboxEntry:
    """A row of the inbox. `state`: pending | acknowledged | rejected."""

    inbox_id: str
    position: int
    state: str
    message: InboxMessage


def type_matches(pattern: str, message_type: str) -> bool:
    """`lineup.content.*` matches every type below it; without a star a pattern matches itself."""
    if pattern.endswith(".*"):
        return message_type.startswith(pattern[:-1])
    return pattern == message_type


def matches_any(patterns: Sequence[str] | None, message_type: str) -> bool:
    """None stands for no filter."""
    return patterns is None or any(type_matches(pattern, message_type) for pattern in patterns)


def decide_receive(
    message: InboxMessage, receiver: Receiver | None, known: bool, inbox_id: str, position: int
) -> MessageKept | MessageRefused | None:
    """None: already there. A message that the manifest does not ask for is refused as not visible."""
    if known:
        return None
    if receiver is None:
        return MessageRefused(message, ErrorCode.APP_NOT_INSTALLED)
    if not receiver.available:
        return MessageRefused(message, receiver.unavailable_code)
    if not matches_any(receiver.subscriptions, message.type):
        return MessageRefused(message, ErrorCode.TOOL_NOT_VISIBLE)
    return MessageKept(inbox_id, position, message)


def decide_acknowledge(entry: InboxEntry | None) -> bool:
    """Whether the acknowledgement changes anything; a repeated one does not, and that is no error."""
    return entry is not None and entry.state == "pending"


def decide_app_gone(pending: Sequence[InboxEntry], code: ErrorCode) -> list[MessageRefused]:
    """What has to be answered because the app will not: every critical message that still waits."""
    return [MessageRefused(entry.message, code) for entry in pending if entry.message.critical]
