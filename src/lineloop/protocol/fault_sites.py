"""Every place where a fault can be injected (design: tests/faults). Owners add lines in their own group.

A name reads `part.path.before_commit` or `.after_commit`, or names the outside call it stands at. Tests
assert that each site is reached.
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
    DEVICE_APPS_OPERATION_BEFORE_COMMIT = "device.apps.operation.before_commit"
    DEVICE_APPS_OPERATION_AFTER_COMMIT = "device.apps.operation.after_commit"
    DEVICE_APPS_COPY_BEFORE_RENAME = "device.apps.copy.before_rename"
    DEVICE_APPS_COPY_AFTER_RENAME = "device.apps.copy.after_rename"
    DEVICE_SESSION_DATA_REPLACE_BEFORE_COMMIT = "device.session_data.replace.before_commit"
    DEVICE_SESSION_DATA_REPLACE_AFTER_COMMIT = "device.session_data.replace.after_commit"
    DEVICE_INBOX_ACKNOWLEDGE_BEFORE_COMMIT = "device.inbox.acknowledge.before_commit"
    DEVICE_INBOX_ACKNOWLEDGE_AFTER_COMMIT = "device.inbox.acknowledge.after_commit"
    DEVICE_PERSON_MESSAGE_BEFORE_COMMIT = "device.person.message.before_commit"
    DEVICE_PERSON_MESSAGE_AFTER_COMMIT = "device.person.message.after_commit"
    DEVICE_CONTAINER_START = "device.container.start"

    # device: transport and outbox

    # cli
