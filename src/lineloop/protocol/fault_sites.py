"""Every place where a fault can be injected (design: tests/faults). Owners add lines in their own group.

A name reads `part.path.before_commit` or `.after_commit`, or names the outside call it stands at. Tests assert
that each site is reached.
"""

from __future__ import annotations

from enum import StrEnum


class FaultSite(StrEnum):
    """The sites of every part; see the groups."""

    # server: conversations and messages

    # server: questions

    # server: runs and the harness engine

    # server: resources and wake-ups

    # client: verbs, handles, link
    CLIENT_LINK_SEND_BEFORE = "client.link.send.before"
    CLIENT_LINK_SEND_AFTER = "client.link.send.after"

    # operators: turns
    OPERATOR_TURN_SPEAK_AFTER = "operator.turn.speak.after"
    OPERATOR_TURN_COMMIT_BEFORE = "operator.turn.commit.before"
    OPERATOR_TURN_COMMIT_AFTER = "operator.turn.commit.after"

    # device: calls, activations, operations

    # device: apps, session data, inbox, containers

    # device: transport and outbox

    # cli
