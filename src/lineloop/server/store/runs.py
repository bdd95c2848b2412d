"""Rows of Runs, their ledger and their waits. SQL only."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from lineloop.harness.port import Entry, Lease, StoredEntry
from lineloop.kit import json
from lineloop.kit.database import Row, Tx
from lineloop.protocol.actors import Actor
from lineloop.protocol.machines import RunPhase
from lineloop.server.run_records import RunRow

_COLUMNS = """
id, conversation_id, root_id, actor_kind, actor_key, idempotency_key, digest, effect_key, target,
prompter_kind, prompter_key, request, message_id, phase, runnable, wakes, retries, ledger_seq, submitting,
cancel_requested_at, deadline_at, lease_holder, lease_token, lease_until, result, error, created_at
"""
_GET = f"SELECT {_COLUMNS} FROM harness_runs WHERE id = :id"
_BY_KEY = f"""
SELECT {_COLUMNS} FROM harness_runs WHERE conversation_id = :conversation_id AND prompter_kind = :kind
    AND prompter_key = :actor_key AND idempotency_key = :key
"""
_OPEN_OF = """
SELECT id FROM harness_runs WHERE root_id = :root_id AND prompter_kind = :kind AND prompter_key = :key
    AND ended_at IS NULL ORDER BY id
"""
_ROOT_OF = "SELECT root_id FROM harness_runs WHERE id = :id"
_INSERT = """
INSERT INTO harness_runs (id, conversation_id, root_id, actor_kind, actor_key, idempotency_key, digest,
    effect_key, target, prompter_kind, prompter_key, request, message_id, phase, deadline_at, created_at)
VALUES (:id, :conversation_id, :root_id, :actor_kind, :actor_key, :idempotency_key, :digest, :effect_key,
    :target, :prompter_kind, :prompter_key, :request, :message_id, 'pending', :deadline_at, :created_at)
"""
_LIVE = "SELECT count(*) FROM harness_runs WHERE runnable = 1 AND ended_at IS NULL"
_READY = f"""
SELECT {_COLUMNS} FROM harness_runs WHERE runnable = 1 AND ended_at IS NULL AND retry_at <= :now
    AND cancel_requested_at IS NULL AND deadline_at > :now AND (lease_holder IS NULL OR lease_until <= :now)
ORDER BY created_at, id LIMIT :limit
"""
_ANY_READY = """
SELECT 1 FROM harness_runs WHERE runnable = 1 AND ended_at IS NULL AND retry_at <= :now
    AND cancel_requested_at IS NULL AND deadline_at > :now
    AND (lease_holder IS NULL OR lease_until <= :now) LIMIT 1
"""
_OVERDUE = f"""
SELECT {_COLUMNS} FROM harness_runs WHERE ended_at IS NULL AND deadline_at <= :now
    AND (lease_holder IS NULL OR lease_until <= :now) ORDER BY deadline_at LIMIT :limit
"""
_CANCELLED = f"""
SELECT {_COLUMNS} FROM harness_runs WHERE ended_at IS NULL AND cancel_requested_at IS NOT NULL
    AND (lease_holder IS NULL OR lease_until <= :now) LIMIT :limit
"""
_TAKE = """
UPDATE harness_runs SET phase = :phase, lease_holder = :holder, lease_token = lease_token + 1,
    lease_until = :until
WHERE id = :id AND ended_at IS NULL AND lease_token = :token AND (lease_holder IS NULL OR lease_until <= :now)
"""
_HELD = """
SELECT cancel_requested_at FROM harness_runs
WHERE id = :id AND lease_holder = :holder AND lease_token = :token AND ended_at IS NULL
"""
_RENEW = """
UPDATE harness_runs SET lease_until = :until
WHERE id = :id AND lease_holder = :holder AND lease_token = :token AND ended_at IS NULL AND lease_until > :now
"""
_RELEASE = """
UPDATE harness_runs SET lease_holder = NULL, lease_until = 0
WHERE id = :id AND lease_holder = :holder AND lease_token = :token
"""
_RELEASE_ALL = """
UPDATE harness_runs SET lease_holder = NULL, lease_until = 0
WHERE lease_holder IS NOT NULL AND ended_at IS NULL
"""
_PROGRESS = """
UPDATE harness_runs SET phase = :phase, submitting = :submitting WHERE id = :id
"""
_SUSPEND = """
UPDATE harness_runs SET phase = :phase, runnable = 0, lease_holder = NULL, lease_until = 0 WHERE id = :id
"""
_RETRY = """
UPDATE harness_runs SET retries = retries + 1, retry_at = :retry_at, lease_holder = NULL, lease_until = 0
WHERE id = :id
"""
_CANCEL = """
UPDATE harness_runs SET cancel_requested_at = :now
WHERE id = :id AND ended_at IS NULL AND cancel_requested_at IS NULL
"""
_END = """
UPDATE harness_runs SET phase = :phase, ended_at = :now, result = :result, error = :error, runnable = 0,
    lease_holder = NULL, lease_until = 0, submitting = NULL
WHERE id = :id AND ended_at IS NULL
"""
_WAKE = "UPDATE harness_runs SET runnable = 1, wakes = wakes + 1 WHERE id = :id AND ended_at IS NULL"
_ADD_ENTRY = """
INSERT INTO ledger (run_id, seq, attempt, type, entry_key, native_id, at, facts, blob_hash)
VALUES (:run_id, :seq, :attempt, :type, :entry_key, :native_id, :at, :facts, :blob_hash)
ON CONFLICT DO NOTHING
"""
_HAS_ENTRY = "SELECT 1 FROM ledger WHERE run_id = :run_id AND type = :type AND entry_key = :entry_key"
_LEDGER_SEQ = "SELECT ledger_seq FROM harness_runs WHERE id = :id"
_SET_LEDGER_SEQ = "UPDATE harness_runs SET ledger_seq = :seq WHERE id = :id"
_ADD_BLOB = "INSERT INTO ledger_blobs (hash, body) VALUES (:hash, :body) ON CONFLICT (hash) DO NOTHING"
_ENTRIES = """
SELECT l.seq, l.attempt, l.type, l.entry_key, l.native_id, l.at, l.facts, b.body FROM ledger AS l
LEFT JOIN ledger_blobs AS b ON b.hash = l.blob_hash
WHERE l.run_id = :run_id AND l.seq > :after ORDER BY l.seq LIMIT :limit
"""
_ADD_WAIT = """
INSERT INTO run_waits (message_id, run_id, until) VALUES (:message_id, :run_id, :until)
ON CONFLICT (message_id, run_id) DO NOTHING
"""
_WAITS_ON = "SELECT run_id, until FROM run_waits WHERE message_id = :message_id"
_WAITS_UNTIL = (
    "SELECT message_id FROM run_waits WHERE run_id = :run_id AND until = :until ORDER BY message_id"
)
_DROP_WAIT = "DELETE FROM run_waits WHERE message_id = :message_id AND run_id = :run_id"
_DROP_WAITS = "DELETE FROM run_waits WHERE run_id = :run_id"
_WAKES = "SELECT wakes FROM harness_runs WHERE id = :id"
_REPLIES = """
SELECT r.content FROM messages AS r JOIN messages AS i ON i.id = r.reply_to_id
WHERE r.reply_to_id = :message_id AND r.purpose = 'envelope'
    AND r.actor_kind = i.target_kind AND r.actor_key = i.target_key
ORDER BY r.ordinal
"""
_NEWEST_INVENTORY = """
SELECT actor_kind, actor_key, content FROM messages
WHERE conversation_id = :root_id AND target_kind = :kind AND target_key = :key AND purpose = 'inventory'
    AND actor_kind = 'runtime' AND offset_ IS NOT NULL
ORDER BY offset_ DESC LIMIT 1
"""
_PATCHES = "SELECT patch FROM patches WHERE message_id = :message_id ORDER BY seq"
_ROOT_OWNER = "SELECT owner_kind, owner_key FROM conversations WHERE id = :id"

MAX_ENTRIES = 100_000


def get(tx: Tx, run_id: str) -> RunRow | None:
    row = tx.one(_GET, {"id": run_id})
    return _run(row) if row else None


def by_key(tx: Tx, conversation_id: str, prompter: Actor, key: str) -> RunRow | None:
    row = tx.one(
        _BY_KEY,
        {"conversation_id": conversation_id, "kind": prompter.kind, "actor_key": prompter.key, "key": key},
    )
    return _run(row) if row else None


def root_of(tx: Tx, run_id: str) -> str | None:
    """The root conversation of a Run; None for an unknown one."""
    row = tx.one(_ROOT_OF, {"id": run_id})
    return row[0] if row else None


def open_of(tx: Tx, root_id: str, prompter: Actor) -> list[str]:
    """Runs in a root conversation that the actor asked for and that have not ended."""
    params = {"root_id": root_id, "kind": prompter.kind, "key": prompter.key}
    return [row[0] for row in tx.all(_OPEN_OF, params)]


def insert(tx: Tx, run: RunRow, request: str) -> None:
    tx.put(
        _INSERT,
        {
            "id": run.id,
            "conversation_id": run.conversation_id,
            "root_id": run.root_id,
            "actor_kind": run.actor.kind,
            "actor_key": run.actor.key,
            "idempotency_key": run.idempotency_key,
            "digest": run.digest,
            "effect_key": run.effect_key,
            "target": run.target,
            "prompter_kind": run.prompter.kind,
            "prompter_key": run.prompter.key,
            "request": request,
            "message_id": run.message_id,
            "deadline_at": run.deadline_at,
            "created_at": run.created_at,
        },
    )


def count_live(tx: Tx) -> int:
    """Runs that hold or want a slot; waiting ones do not."""
    row = tx.one(_LIVE)
    return row[0] if row else 0


def ready(tx: Tx, now: int, limit: int) -> list[RunRow]:
    return [_run(row) for row in tx.all(_READY, {"now": now, "limit": limit})]


def any_ready(tx: Tx, now: int) -> bool:
    return tx.one(_ANY_READY, {"now": now}) is not None


def due(tx: Tx, now: int, limit: int) -> list[RunRow]:
    """Overdue or cancelled Runs that nobody holds."""
    params = {"now": now, "limit": limit}
    return [_run(row) for row in [*tx.all(_CANCELLED, params), *tx.all(_OVERDUE, params)]]


def take(tx: Tx, run: RunRow, *, phase: RunPhase, holder: str, until: int, now: int) -> bool:
    """Gives the lease to `holder`, under the next token; False when another was quicker."""
    params = {"id": run.id, "token": run.lease_token, "phase": phase, "holder": holder}
    return tx.run(_TAKE, {**params, "until": until, "now": now}) == 1


def held(tx: Tx, lease: Lease) -> tuple[bool, bool]:
    """(still held, cancel requested)."""
    row = tx.one(_HELD, {"id": lease.run_id, "holder": lease.holder, "token": lease.token})
    return (row is not None, row is not None and row[0] is not None)


def renew(tx: Tx, lease: Lease, *, until: int, now: int) -> bool:
    """False when it expired or was taken over: an expired lease cannot be renewed (L94)."""
    params = {"id": lease.run_id, "holder": lease.holder, "token": lease.token, "until": until, "now": now}
    return tx.run(_RENEW, params) == 1


def release(tx: Tx, lease: Lease) -> None:
    tx.put(_RELEASE, {"id": lease.run_id, "holder": lease.holder, "token": lease.token})


def release_all(tx: Tx) -> int:
    """How many leases were let go. Their tokens stay, so that a holder that still lives is refused."""
    return tx.run(_RELEASE_ALL)


def set_progress(tx: Tx, run_id: str, *, phase: RunPhase, submitting: int | None) -> None:
    tx.put(_PROGRESS, {"id": run_id, "phase": phase, "submitting": submitting})


def suspend(tx: Tx, run_id: str, phase: RunPhase) -> None:
    tx.put(_SUSPEND, {"id": run_id, "phase": phase})


def schedule_retry(tx: Tx, run_id: str, retry_at: int) -> None:
    tx.put(_RETRY, {"id": run_id, "retry_at": retry_at})


def request_cancel(tx: Tx, run_id: str, now: int) -> bool:
    """True at the first time."""
    return tx.run(_CANCEL, {"id": run_id, "now": now}) == 1


def set_ended(tx: Tx, run_id: str, *, phase: RunPhase, result: Any, error: Any, now: int) -> None:
    params = {
        "id": run_id,
        "phase": phase,
        "result": None if result is None else json.dumps(result),
        "error": None if error is None else json.dumps(error),
        "now": now,
    }
    tx.run(_END, params)


def wake(tx: Tx, run_id: str) -> bool:
    return tx.run(_WAKE, {"id": run_id}) == 1


def wakes(tx: Tx, run_id: str) -> int:
    row = tx.one(_WAKES, {"id": run_id})
    return row[0] if row else 0


def add_entry(tx: Tx, run_id: str, entry: Entry, *, seq: int, attempt: int, at: int) -> StoredEntry | None:
    """One ledger row; content goes to the blobs under its hash. None when (type, key) was recorded before."""
    blob_hash = body = None
    if entry.content is not None:
        body = json.dumps(entry.content)
        blob_hash = hashlib.sha256(body.encode()).hexdigest()
    added = tx.run(
        _ADD_ENTRY,
        {
            "run_id": run_id,
            "seq": seq,
            "attempt": attempt,
            "type": entry.type,
            "entry_key": entry.key,
            "native_id": entry.native_id,
            "at": at,
            "facts": json.dumps(entry.facts),
            "blob_hash": blob_hash,
        },
    )
    if not added:
        return None
    if blob_hash is not None:
        tx.put(_ADD_BLOB, {"hash": blob_hash, "body": body})
    return StoredEntry(seq, attempt, entry.type, entry.key, entry.native_id, at, entry.facts, entry.content)


def has_entry(tx: Tx, run_id: str, entry_type: str, key: str | None) -> bool:
    return tx.one(_HAS_ENTRY, {"run_id": run_id, "type": entry_type, "entry_key": key}) is not None


def ledger_seq(tx: Tx, run_id: str) -> int:
    """The seq of the last entry."""
    row = tx.one(_LEDGER_SEQ, {"id": run_id})
    return row[0] if row else 0


def set_ledger_seq(tx: Tx, run_id: str, seq: int) -> None:
    tx.put(_SET_LEDGER_SEQ, {"id": run_id, "seq": seq})


def entries(tx: Tx, run_id: str, *, after: int = 0, limit: int = MAX_ENTRIES) -> list[StoredEntry]:
    rows = tx.all(_ENTRIES, {"run_id": run_id, "after": after, "limit": limit})
    return [
        StoredEntry(
            seq=row[0],
            attempt=row[1],
            type=row[2],
            key=row[3],
            native_id=row[4],
            at=row[5],
            facts=json.loads(row[6]),
            content=None if row[7] is None else json.loads(row[7]),
        )
        for row in rows
    ]


def add_wait(tx: Tx, run_id: str, message_id: str, until: str) -> None:
    tx.put(_ADD_WAIT, {"run_id": run_id, "message_id": message_id, "until": until})


def waits_on(tx: Tx, message_id: str) -> list[tuple[str, str]]:
    """(run id, until) of every Run that waits for replies to this message."""
    return [(row[0], row[1]) for row in tx.all(_WAITS_ON, {"message_id": message_id})]


def waits_until(tx: Tx, run_id: str, until: str) -> list[str]:
    """The messages from which the Run waits for exactly this."""
    return [row[0] for row in tx.all(_WAITS_UNTIL, {"run_id": run_id, "until": until})]


def drop_waits(tx: Tx, run_id: str, message_ids: Sequence[str] | None = None) -> None:
    """Of these messages, or all of the Run's."""
    if message_ids is None:
        tx.put(_DROP_WAITS, {"run_id": run_id})
        return
    for message_id in message_ids:
        tx.put(_DROP_WAIT, {"run_id": run_id, "message_id": message_id})


def replies(tx: Tx, message_id: str) -> list[dict[str, Any]]:
    """The content of every envelope with which the one spoken to has replied to this message, in order.

    What others wrote under the same reference is not an answer.
    """
    return [json.loads(row[0]) for row in tx.all(_REPLIES, {"message_id": message_id})]


def newest_inventory(tx: Tx, root_id: str, operator: Actor) -> tuple[Actor, dict[str, Any]] | None:
    """(device, content) of the newest inventory that was published to this operator here."""
    row = tx.one(_NEWEST_INVENTORY, {"root_id": root_id, "kind": operator.kind, "key": operator.key})
    return (Actor(row[0], row[1]), json.loads(row[2])) if row else None


def patches(tx: Tx, message_id: str) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in tx.all(_PATCHES, {"message_id": message_id})]


def root_owner(tx: Tx, root_id: str) -> Actor | None:
    row = tx.one(_ROOT_OWNER, {"id": root_id})
    return Actor(row[0], row[1]) if row else None


def _run(row: Row) -> RunRow:
    return RunRow(
        id=row["id"],
        conversation_id=row["conversation_id"],
        root_id=row["root_id"],
        actor=Actor(row["actor_kind"], row["actor_key"]),
        idempotency_key=row["idempotency_key"],
        digest=row["digest"],
        effect_key=row["effect_key"],
        target=row["target"],
        prompter=Actor(row["prompter_kind"], row["prompter_key"]),
        request=json.loads(row["request"]),
        message_id=row["message_id"],
        phase=RunPhase(row["phase"]),
        runnable=bool(row["runnable"]),
        wakes=row["wakes"],
        retries=row["retries"],
        ledger_seq=row["ledger_seq"],
        submitting=row["submitting"],
        cancel_requested_at=row["cancel_requested_at"],
        deadline_at=row["deadline_at"],
        lease_holder=row["lease_holder"],
        lease_token=row["lease_token"],
        lease_until=row["lease_until"],
        result=None if row["result"] is None else json.loads(row["result"]),
        error=None if row["error"] is None else json.loads(row["error"]),
        created_at=row["created_at"],
    )
