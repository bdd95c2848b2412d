"""What is old, and whether somebody still needs it; a few rows at a time. SQL only.

Nothing that is alive or unsent ever goes: each statement names the state in which its rows are needed by
nobody. That a call was made stays for ever, so that its id never runs twice.
"""

from __future__ import annotations

from lineloop.device.decide.calls import params_digest
from lineloop.device.decide.state import Call
from lineloop.device.store import calls
from lineloop.kit.database import Tx
from lineloop.kit.records import record

_PAGE = """
  SELECT arrival, id, accepted_at, ended_at, outcome IS NULL FROM calls
  WHERE runtime_id = :runtime_id AND arrival > :after ORDER BY arrival LIMIT :limit
"""
_UNSENT = """
  SELECT 1 FROM outbox
  WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND key >= :first AND key < :last
    AND state = 'pending' LIMIT 1
"""
_EMPTY_CALL = "UPDATE calls SET params = ?, outcome = NULL, trace = NULL WHERE id = ?"
_OF_CALL = (
    """
  DELETE FROM outbox
  WHERE runtime_id = :runtime_id AND conversation_id = :conversation_id AND key >= :first AND key < :last
    """,
    "DELETE FROM receipts WHERE call_ref = :ref",
    "DELETE FROM consents WHERE call_ref = :ref AND state <> 'requested'",
    # What a surface still shows stays with its instance.
    """
  DELETE FROM operations WHERE call_ref = :ref AND state <> 'active' AND NOT EXISTS
    (SELECT 1 FROM instances AS i WHERE i.instance_id = operations.instance_id AND i.ended_at IS NULL)
    """,
)
_SENT = """
  DELETE FROM outbox WHERE position IN (
    SELECT position FROM outbox
    WHERE runtime_id = :runtime_id AND state = 'sent' AND sent_at < :before AND substr(key, 1, 5) <> 'call_'
    ORDER BY position LIMIT :limit)
"""
# What the person said is in the kept messages; what the server refused waits for the person.
_SAID = """
  DELETE FROM person_outbox WHERE id IN (
    SELECT id FROM person_outbox AS o
    WHERE o.runtime_id = :runtime_id AND o.state = 'sent' AND o.refusal IS NULL AND o.sent_at < :before
      AND o.position < (SELECT MAX(n.position) FROM person_outbox AS n WHERE n.runtime_id = :runtime_id)
    LIMIT :limit)
"""
_SEEN = """
  DELETE FROM envelopes_seen WHERE (runtime_id, agent, conversation_id, envelope_id) IN (
    SELECT runtime_id, agent, conversation_id, envelope_id FROM envelopes_seen
    WHERE runtime_id = :runtime_id AND received_at < :before LIMIT :limit)
"""
_AUDIT = """
  DELETE FROM audit WHERE number IN (
    SELECT number FROM audit WHERE runtime_id = :runtime_id AND at < :before ORDER BY number LIMIT :limit)
"""
_ACTIONS = """
  DELETE FROM ui_actions WHERE (runtime_id, instance_id, action_id) IN (
    SELECT u.runtime_id, u.instance_id, u.action_id FROM ui_actions AS u
    WHERE u.runtime_id = :runtime_id AND u.received_at < :before AND NOT EXISTS
      (SELECT 1 FROM instances AS i WHERE i.instance_id = u.instance_id AND i.ended_at IS NULL)
    LIMIT :limit)
"""
_CONTENTS = """
  DELETE FROM inventory_contents WHERE (runtime_id, revision) IN (
    SELECT c.runtime_id, c.revision FROM inventory_contents AS c
    WHERE c.runtime_id = :runtime_id AND c.created_at < :before AND NOT EXISTS
      (SELECT 1 FROM inventories AS i WHERE i.runtime_id = c.runtime_id AND i.revision = c.revision)
    LIMIT :limit)
"""
_APP_OPERATIONS = """
  DELETE FROM app_operations WHERE id IN (
    SELECT id FROM app_operations
    WHERE runtime_id = :runtime_id AND state IN ('succeeded', 'failed') AND updated_at < :before LIMIT :limit)
"""
_CLOSED_DATA = """
  SELECT d.app_scope, d.app_session_id, d.size_bytes
  FROM session_data AS d JOIN sub_sessions AS s ON s.app_session_id = d.app_session_id
  WHERE d.runtime_id = :runtime_id AND s.state = 'closed' AND s.closed_at < :before AND d.updated_at < :before
  LIMIT :limit
"""
_DELETE_DATA = "DELETE FROM session_data WHERE runtime_id = ? AND app_scope = ? AND app_session_id = ?"
_SHRINK = "UPDATE session_data_usage SET size_bytes = size_bytes - ? WHERE runtime_id = ? AND app_scope = ?"


@record
class Look:
    """One look through the calls: which are old enough, where to look on (None: nothing more), and up to
    where everything is done (never look there again in this process).
    """

    refs: tuple[str, ...]
    after: int | None
    done_to: int


def look_for_calls(tx: Tx, runtime_id: str, *, after: int, done_to: int, before: int, limit: int) -> Look:
    """The next page of calls by arrival. `before`: UTC ms at which an ended call is old."""
    rows = [tuple(row) for row in tx.all(_PAGE, {"runtime_id": runtime_id, "after": after, "limit": limit})]
    refs: list[str] = []
    gapless = after == done_to
    for arrival, ref, accepted_at, ended_at, emptied in rows:
        if accepted_at >= before:
            return Look(tuple(refs), None, done_to)
        if not emptied and ended_at is not None and ended_at < before:
            refs.append(ref)
        gapless = gapless and bool(emptied) and ended_at is not None
        if gapless:
            done_to = arrival
    return Look(tuple(refs), rows[-1][0] if len(rows) == limit else None, done_to)


def empty_call(tx: Tx, runtime_id: str, ref: str, before: int) -> bool:
    """Takes what was asked and answered; False for a call that is needed (live, or with unsent answers)."""
    call: Call | None = calls.by_ref(tx, ref)
    if call is None or call.emptied or call.ended_at is None or call.ended_at >= before:
        return False
    about = {
        "runtime_id": runtime_id,
        "conversation_id": call.conversation_id,
        "ref": ref,
        "first": f"{ref}/",
        "last": f"{ref}0",  # The character after the slash.
    }
    if tx.one(_UNSENT, about) is not None:
        return False
    tx.run(_EMPTY_CALL, (params_digest(call.arguments), ref))
    for statement in _OF_CALL:
        tx.run(statement, about)
    return True


OUTBOX = (_SENT, _SAID)
INBOX = (_SEEN,)
AUDIT = (_AUDIT, _ACTIONS, _CONTENTS, _APP_OPERATIONS)


def remove_some(tx: Tx, runtime_id: str, statement: str, before: int, limit: int) -> int:
    """Carries out one of the statements above; how many rows went."""
    return tx.run(statement, {"runtime_id": runtime_id, "before": before, "limit": limit})


def remove_closed_data(tx: Tx, runtime_id: str, before: int, limit: int) -> int:
    """The data of sub-sessions that were closed long ago; how many rows went."""
    about = {"runtime_id": runtime_id, "before": before, "limit": limit}
    found = [tuple(row) for row in tx.all(_CLOSED_DATA, about)]
    for app_scope, app_session_id, size_bytes in found:
        tx.run(_DELETE_DATA, (runtime_id, app_scope, app_session_id))
        tx.run(_SHRINK, (size_bytes, runtime_id, app_scope))
    return len(found)
