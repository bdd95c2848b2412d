"""Writes the facts of a decision, each by one statement, in their order. Decides nothing.

A call that changes several times in one decision is written once, as it is in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lineloop.device.decide import facts as f
from lineloop.device.decide.state import Call
from lineloop.device.store import calls, outbox, records, sessions
from lineloop.kit.database import Tx


def write_facts(tx: Tx, runtime_id: str, facts: list[f.Fact], now: int) -> None:
    """Writes every fact. Raises sqlite3.IntegrityError when a fact contradicts what is stored."""
    latest: dict[str, Call] = {}
    new: set[str] = set()
    for fact in facts:
        if isinstance(fact, f.CallAccepted):
            new.add(fact.call.ref)
            latest[fact.call.ref] = fact.call
        elif isinstance(fact, f.CallChanged):
            latest[fact.call.ref] = fact.call
    for ref, call in latest.items():
        if ref in new:
            calls.insert(tx, runtime_id, call)
        else:
            calls.update(tx, call)
    for fact in facts:
        writer = _WRITERS.get(type(fact))
        if writer is not None:
            writer(tx, runtime_id, fact, now)


_Writer = Callable[[Tx, str, Any, int], None]

_WRITERS: dict[type[Any], _Writer] = {
    f.Audited: records.insert_audit,
    f.ReceiptIssued: lambda tx, _, fact, now: calls.insert_receipt(tx, fact, now),
    f.MessageQueued: lambda tx, runtime_id, fact, now: outbox.insert(
        tx, runtime_id, outbox.Entry(fact.conversation_id, fact.key, fact.text), now
    ),
    f.SubSessionOpened: lambda tx, runtime_id, fact, now: sessions.insert_sub_session(
        tx, runtime_id, fact.app_session_id, fact.conversation_id, fact.app_scope, now
    ),
    f.SubSessionClosed: lambda tx, _, fact, now: sessions.close_sub_session(tx, fact.app_session_id, now),
    f.InstanceStarted: lambda tx, runtime_id, fact, _: sessions.insert_instance(
        tx, runtime_id, fact.instance
    ),
    f.InstanceChanged: lambda tx, _, fact, __: sessions.update_instance(tx, fact.instance),
    f.ActivationStarted: lambda tx, runtime_id, fact, _: sessions.insert_activation(
        tx, runtime_id, fact.activation
    ),
    f.ActivationEnded: lambda tx, _, fact, __: sessions.end_activation(tx, fact.activation),
    f.OperationStarted: lambda tx, runtime_id, fact, _: sessions.insert_operation(
        tx, runtime_id, fact.operation
    ),
    f.OperationEnded: lambda tx, _, fact, __: sessions.end_operation(tx, fact.operation),
    f.RecordWritten: records.insert_record,
    f.FocusSet: lambda tx, runtime_id, fact, _: sessions.set_focus(
        tx, runtime_id, fact.conversation_id, fact.stack
    ),
    f.ConsentRequested: lambda tx, runtime_id, fact, now: records.request_consent(
        tx, runtime_id, fact.consent_id, fact.call_ref, now
    ),
    f.ConsentClosed: lambda tx, _, fact, now: records.close_consent(tx, fact.call_ref, fact.state, now),
    f.HostLeaseTaken: lambda tx, runtime_id, fact, now: records.set_lease(
        tx, runtime_id, fact.host_session_id, now
    ),
    f.UiActionReceived: records.insert_ui_action,
    f.InventoryPublished: lambda tx, runtime_id, fact, now: records.publish(
        tx, runtime_id, fact.agent, fact.conversation_id, fact.revision, fact.payload, now
    ),
}
