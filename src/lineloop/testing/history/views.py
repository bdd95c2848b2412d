"""Rules of viewers: what they applied is a prefix of the log, and their model is its fold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lineloop.protocol.errors import PatchInvalid
from lineloop.protocol.patches import apply_patch
from lineloop.testing.history.messages import SentLog, sent_logs
from lineloop.testing.history.operations import History, Sight, Viewed, Watched, fingerprint
from lineloop.testing.history.reading import Reading, Stored
from lineloop.testing.history.verdicts import Rule, Violation

_MUTABLE = "question"
"""The card of a question changes when it closes, without a patch."""


@dataclass(slots=True)
class _Truth:
    """Fingerprints of one message: of each patch of its log, and of its content at each revision."""

    patches: dict[int, str] = field(default_factory=dict[int, str])
    contents: dict[int, str] = field(default_factory=dict[int, str])


def view_violations(history: History, reading: Reading, *, healed: bool) -> Iterator[Violation]:
    stored = reading.by_id()
    logs = sent_logs(history)
    truths: dict[str, _Truth] = {}
    by_viewer: defaultdict[tuple[str, str], list[Viewed]] = defaultdict(list)
    for view in history.of(Viewed):
        by_viewer[view.viewer, view.message_id].append(view)
    for (viewer, message_id), views in by_viewer.items():
        message = stored.get(message_id)
        subject = f"{viewer} of {message_id}"
        if message is None:
            yield Violation(Rule.LOST, subject, "it was shown and is not there")
            continue
        if message_id not in truths:
            truths[message_id] = _truth(message, logs.get(message_id), reading)
        yield from _followed(views, message, truths[message_id], subject)
    if healed:
        yield from _complete(history, reading, by_viewer)


def _truth(message: Stored, log: SentLog | None, reading: Reading) -> _Truth:
    """From the stored log where it was read whole, else from what the writer sent."""
    truth = _Truth({}, {message.revision: fingerprint(message.content)})
    read = {patch["seq"]: patch for patch in reading.logs.get(message.id, ())}
    patches: Mapping[int, Mapping[str, Any]] = read or (log.patches if log else {})
    if log is None:
        truth.patches = {seq: fingerprint(patch) for seq, patch in patches.items()}
        return truth
    content: Mapping[str, Any] = log.initial
    truth.contents[0] = fingerprint(content)
    for seq in range(1, message.revision + 1):
        patch = patches.get(seq)
        if patch is None:
            break
        truth.patches[seq] = fingerprint(patch)
        try:
            content = apply_patch(content, patch)
        except PatchInvalid:
            break
        truth.contents[seq] = fingerprint(content)
    return truth


def _followed(views: list[Viewed], message: Stored, truth: _Truth, subject: str) -> Iterator[Violation]:
    known = -1
    for view in views:
        if view.revision > message.revision:
            yield Violation(Rule.AFTER_END, subject, f"shown {view.revision} of {message.revision}")
            return
        if view.sight is Sight.PATCH and view.revision != known + 1:
            yield Violation(Rule.VIEW_GAP, subject, f"patch {view.revision} after {known}")
        elif view.sight is Sight.WHOLE and view.revision < known:
            yield Violation(Rule.VIEW_GAP, subject, f"whole at {view.revision} after {known}")
        known = view.revision
        facts = truth.patches if view.sight is Sight.PATCH else truth.contents
        expected = facts.get(view.revision)
        if expected is not None and expected != view.digest and message.purpose != _MUTABLE:
            yield Violation(Rule.VIEW_DIFFERS, subject, f"{view.sight} at {view.revision}")
        if view.status and view.status != "streaming" and view.status != message.status:
            yield Violation(Rule.TWO_OUTCOMES, subject, f"shown {view.status}, is {message.status}")


def _complete(
    history: History, reading: Reading, by_viewer: Mapping[tuple[str, str], list[Viewed]]
) -> Iterator[Violation]:
    """After healing every viewer has everything of its conversation as it is."""
    below: defaultdict[str, list[Stored]] = defaultdict(list)
    for message in reading.messages:
        below[reading.roots.get(message.conversation_id, message.conversation_id)].append(message)
    for watched in set(history.of(Watched)):
        for message in below[watched.root_id]:
            views = by_viewer.get((watched.viewer, message.id))
            subject = f"{watched.viewer} of {message.id}"
            if not views:
                yield Violation(Rule.STUCK, subject, "never shown")
                continue
            wholes = [view for view in views if view.status]
            if (views[-1].revision, wholes[-1].status if wholes else "") != (
                message.revision,
                message.status,
            ):
                words = f"shown {views[-1].revision}, is {message.revision} {message.status}"
                yield Violation(Rule.STUCK, subject, words)
            elif message.purpose == _MUTABLE and views[-1].digest != fingerprint(message.content):
                yield Violation(Rule.STUCK, subject, "shown as it was before it closed")
