"""The tables of Runs: the run itself, its ledger (audit and journal in one), its waits (§6 of the protocol).

Decides the shape only; the migration that includes it decides when. A run's lease lives on its own row, so
that the fencing check, the phase and the write it guards are one statement away from each other.
"""

from __future__ import annotations

RUNS_DDL: tuple[str, ...] = (
    """
    CREATE TABLE harness_runs (
        id TEXT PRIMARY KEY,
        conversation_id TEXT NOT NULL,
        root_id TEXT NOT NULL,
        actor_kind TEXT NOT NULL,
        actor_key TEXT NOT NULL,
        idempotency_key TEXT NOT NULL,
        digest TEXT NOT NULL,
        effect_key TEXT NOT NULL,
        target TEXT NOT NULL,
        prompter_kind TEXT NOT NULL,
        prompter_key TEXT NOT NULL,
        request TEXT NOT NULL,
        message_id TEXT NOT NULL,
        phase TEXT NOT NULL CHECK (phase IN ('pending', 'starting', 'running', 'waiting_input',
            'succeeded', 'failed', 'cancelled', 'timed_out', 'unknown')),
        runnable INTEGER NOT NULL DEFAULT 1,
        wakes BIGINT NOT NULL DEFAULT 0,
        retry_at BIGINT NOT NULL DEFAULT 0,
        retries INTEGER NOT NULL DEFAULT 0,
        ledger_seq INTEGER NOT NULL DEFAULT 0,
        submitting INTEGER,
        cancel_requested_at BIGINT,
        deadline_at BIGINT NOT NULL,
        lease_holder TEXT,
        lease_token BIGINT NOT NULL DEFAULT 0,
        lease_until BIGINT NOT NULL DEFAULT 0,
        result TEXT,
        error TEXT,
        created_at BIGINT NOT NULL,
        ended_at BIGINT,
        UNIQUE (conversation_id, prompter_kind, prompter_key, idempotency_key)
    )
    """,
    """
    CREATE INDEX harness_runs_runnable ON harness_runs (created_at, id)
        WHERE runnable = 1 AND ended_at IS NULL
    """,
    "CREATE INDEX harness_runs_due ON harness_runs (deadline_at) WHERE ended_at IS NULL",
    """
    CREATE INDEX harness_runs_cancelled ON harness_runs (cancel_requested_at)
        WHERE ended_at IS NULL AND cancel_requested_at IS NOT NULL
    """,
    """
    CREATE TABLE ledger (
        run_id TEXT NOT NULL REFERENCES harness_runs (id),
        seq INTEGER NOT NULL,
        attempt BIGINT NOT NULL,
        type TEXT NOT NULL,
        entry_key TEXT,
        native_id TEXT,
        at BIGINT NOT NULL,
        facts TEXT NOT NULL,
        blob_hash TEXT,
        PRIMARY KEY (run_id, seq)
    )
    """,
    """
    CREATE UNIQUE INDEX ledger_entry_once ON ledger (run_id, type, entry_key) WHERE entry_key IS NOT NULL
    """,
    """
    CREATE UNIQUE INDEX ledger_native_once ON ledger (run_id, attempt, native_id, type)
        WHERE native_id IS NOT NULL
    """,
    "CREATE TABLE ledger_blobs (hash TEXT PRIMARY KEY, body TEXT)",
    """
    CREATE TABLE run_waits (
        message_id TEXT NOT NULL,
        run_id TEXT NOT NULL REFERENCES harness_runs (id),
        until TEXT NOT NULL CHECK (until IN ('result', 'started_or_result', 'answer', 'inventory')),
        PRIMARY KEY (message_id, run_id)
    )
    """,
    "CREATE INDEX run_waits_by_run ON run_waits (run_id)",
)
