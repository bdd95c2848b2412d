"""Every place where a fault can be injected (design: tests/faults). Owners add lines in their own group.

A name reads `part.path.before_commit` or `.after_commit`, or names the outside call it stands at. Tests
assert that each site is reached.
"""

from __future__ import annotations

from enum import StrEnum


class FaultSite(StrEnum):
    """The sites of every part; see the groups."""

    # server: conversations and messages
    SERVER_CONVERSATION_BEFORE = "server.conversation.before_commit"
    SERVER_CONVERSATION_AFTER = "server.conversation.after_commit"
    SERVER_SPEAK_BEFORE = "server.speak.before_commit"
    SERVER_SPEAK_AFTER = "server.speak.after_commit"
    SERVER_APPEND_BEFORE = "server.append.before_commit"
    SERVER_APPEND_AFTER = "server.append.after_commit"
    SERVER_END_BEFORE = "server.end.before_commit"
    SERVER_END_AFTER = "server.end.after_commit"
    SERVER_POLL_BEFORE = "server.poll.before_commit"
    SERVER_POLL_AFTER = "server.poll.after_commit"
    SERVER_COMMIT_POSITION_BEFORE = "server.commit_position.before_commit"
    SERVER_COMMIT_POSITION_AFTER = "server.commit_position.after_commit"

    # server: questions
    SERVER_ASK_BEFORE = "server.ask.before_commit"
    SERVER_ASK_AFTER = "server.ask.after_commit"
    SERVER_ANSWER_BEFORE = "server.answer.before_commit"
    SERVER_ANSWER_AFTER = "server.answer.after_commit"
    SERVER_TIMEOUT_BEFORE = "server.timeout.before_commit"
    SERVER_TIMEOUT_AFTER = "server.timeout.after_commit"

    # server: runs and the harness engine
    HARNESS_SUBMIT_BEFORE_COMMIT = "harness.submit.before_commit"
    HARNESS_SUBMIT_AFTER_COMMIT = "harness.submit.after_commit"
    HARNESS_CLAIM_BEFORE_COMMIT = "harness.claim.before_commit"
    HARNESS_CLAIM_AFTER_COMMIT = "harness.claim.after_commit"
    HARNESS_STEP_BEFORE_COMMIT = "harness.step.before_commit"
    HARNESS_STEP_AFTER_COMMIT = "harness.step.after_commit"
    HARNESS_TOOL_DISPATCH_BEFORE_COMMIT = "harness.tool_dispatch.before_commit"
    HARNESS_TOOL_DISPATCH_AFTER_COMMIT = "harness.tool_dispatch.after_commit"
    HARNESS_TOOL_RESULT_BEFORE_COMMIT = "harness.tool_result.before_commit"
    HARNESS_TOOL_RESULT_AFTER_COMMIT = "harness.tool_result.after_commit"
    HARNESS_FINISH_BEFORE_COMMIT = "harness.finish.before_commit"
    HARNESS_FINISH_AFTER_COMMIT = "harness.finish.after_commit"
    HARNESS_CANCEL_BEFORE_COMMIT = "harness.cancel.before_commit"
    HARNESS_CANCEL_AFTER_COMMIT = "harness.cancel.after_commit"
    HARNESS_DUE_BEFORE_COMMIT = "harness.due.before_commit"
    HARNESS_DUE_AFTER_COMMIT = "harness.due.after_commit"

    # server: care, people, upkeep
    SERVER_CARE_BEFORE = "server.care.before_commit"
    SERVER_CARE_AFTER = "server.care.after_commit"
    SERVER_READ_BEFORE = "server.read.before_commit"
    SERVER_READ_AFTER = "server.read.after_commit"
    SERVER_BLOB_BEFORE = "server.blob.before_commit"
    SERVER_BLOB_AFTER = "server.blob.after_commit"
    SERVER_INVITE_BEFORE = "server.invite.before_commit"
    SERVER_INVITE_AFTER = "server.invite.after_commit"
    SERVER_REMOVE_BEFORE = "server.remove.before_commit"
    SERVER_REMOVE_AFTER = "server.remove.after_commit"
    SERVER_PEOPLE_BEFORE = "server.people.before_commit"
    SERVER_PEOPLE_AFTER = "server.people.after_commit"
    SERVER_INDEX_BEFORE = "server.index.before_commit"
    SERVER_INDEX_AFTER = "server.index.after_commit"
    SERVER_RETENTION_BEFORE = "server.retention.before_commit"
    SERVER_RETENTION_AFTER = "server.retention.after_commit"
    SERVER_BLOB_SWEEP_BEFORE = "server.blob_sweep.before_commit"
    SERVER_BLOB_SWEEP_AFTER = "server.blob_sweep.after_commit"
    SERVER_SILENT_BEFORE = "server.silent.before_commit"
    SERVER_SILENT_AFTER = "server.silent.after_commit"
    SERVER_REFUSALS_BEFORE = "server.refusals.before_commit"
    SERVER_REFUSALS_AFTER = "server.refusals.after_commit"
    SERVER_BLOB_FILE_BEFORE = "server.blob_file.before_keep"
    SERVER_BLOB_FILE_AFTER = "server.blob_file.after_keep"
    SERVER_BLOB_REMOVAL_BEFORE = "server.blob_file.before_removal"
    SERVER_BLOB_REMOVAL_AFTER = "server.blob_file.after_removal"

    # server: resources and wake-ups
    SERVER_NOTIFY_BEFORE = "server.notify.before_commit"
    SERVER_NOTIFY_AFTER = "server.notify.after_commit"

    # client: verbs, handles, link
    CLIENT_LINK_SEND_BEFORE = "client.link.send.before"
    CLIENT_LINK_SEND_AFTER = "client.link.send.after"

    # operators: turns
    OPERATOR_TURN_SPEAK_AFTER = "operator.turn.speak.after"
    OPERATOR_TURN_COMMIT_BEFORE = "operator.turn.commit.before"
    OPERATOR_TURN_COMMIT_AFTER = "operator.turn.commit.after"

    # device: calls, activations, operations
    DEVICE_RECEIVE_BEFORE_COMMIT = "device.receive.before_commit"
    DEVICE_RECEIVE_AFTER_COMMIT = "device.receive.after_commit"
    DEVICE_ACCEPT_BEFORE_COMMIT = "device.accept.before_commit"
    DEVICE_ACCEPT_AFTER_COMMIT = "device.accept.after_commit"
    DEVICE_ACTIVATION_BEFORE_COMMIT = "device.activation.before_commit"
    DEVICE_ACTIVATION_AFTER_COMMIT = "device.activation.after_commit"
    DEVICE_FOREGROUND_BEFORE_COMMIT = "device.foreground.before_commit"
    DEVICE_FOREGROUND_AFTER_COMMIT = "device.foreground.after_commit"
    DEVICE_OPERATION_START_BEFORE_COMMIT = "device.operation_start.before_commit"
    DEVICE_OPERATION_START_AFTER_COMMIT = "device.operation_start.after_commit"
    DEVICE_RESULT_BEFORE_COMMIT = "device.result.before_commit"
    DEVICE_RESULT_AFTER_COMMIT = "device.result.after_commit"
    DEVICE_DEADLINE_BEFORE_COMMIT = "device.deadline.before_commit"
    DEVICE_DEADLINE_AFTER_COMMIT = "device.deadline.after_commit"
    DEVICE_CONSENT_BEFORE_COMMIT = "device.consent.before_commit"
    DEVICE_CONSENT_AFTER_COMMIT = "device.consent.after_commit"
    DEVICE_INTENT_BEFORE_COMMIT = "device.intent.before_commit"
    DEVICE_INTENT_AFTER_COMMIT = "device.intent.after_commit"
    DEVICE_ACTION_BEFORE_COMMIT = "device.action.before_commit"
    DEVICE_ACTION_AFTER_COMMIT = "device.action.after_commit"
    DEVICE_INVENTORY_BEFORE_COMMIT = "device.inventory.before_commit"
    DEVICE_INVENTORY_AFTER_COMMIT = "device.inventory.after_commit"
    DEVICE_HANDLER_REPORT_BEFORE_COMMIT = "device.handler_report.before_commit"
    DEVICE_HANDLER_REPORT_AFTER_COMMIT = "device.handler_report.after_commit"
    DEVICE_HANDLER_BEFORE_INVOKE = "device.handler.before_invoke"
    DEVICE_HANDLER_AFTER_INVOKE = "device.handler.after_invoke"
    DEVICE_HOST_BEFORE_SHOW = "device.host.before_show"
    DEVICE_HOST_AFTER_SHOW = "device.host.after_show"

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
    DEVICE_PERSON_SAY_BEFORE_COMMIT = "device.person.say.before_commit"
    DEVICE_PERSON_SAY_AFTER_COMMIT = "device.person.say.after_commit"
    DEVICE_PERSON_SENT_BEFORE_COMMIT = "device.person.sent.before_commit"
    DEVICE_PERSON_SENT_AFTER_COMMIT = "device.person.sent.after_commit"
    DEVICE_RETENTION_BEFORE_COMMIT = "device.retention.before_commit"
    DEVICE_RETENTION_AFTER_COMMIT = "device.retention.after_commit"
    DEVICE_CONTAINER_START = "device.container.start"

    # device: transport and outbox
    DEVICE_OUTBOX_BEFORE_SEND = "device.outbox.before_send"
    DEVICE_OUTBOX_AFTER_SEND = "device.outbox.after_send"

    # cli
