"""Tables of calls, activations, operations, focus, outbox and audit. Imported by the first migration.

Portable SQL (SQLite and PostgreSQL). Every row carries runtime_id. Times are UTC milliseconds, JSON is text.
`arrival`, `position` and `number` are the row numbers that the one writer gives; they, not clocks or ids, say
what came first. Every index of calls, outbox, receipts and audit is a page more in every commit of a call.
"""

from __future__ import annotations

# Small rows under a key of several parts: on SQLite the key's tree then holds the row itself.
CLUSTERED = ("cursors", "envelopes_seen", "receipts", "focus", "inventories", "ui_actions", "shell_keys")

CORE_DDL: tuple[str, ...] = (
    # `generation` names the state of registry and policy; a new one is made by every change of either.
    """
    CREATE TABLE device_state (
      runtime_id TEXT NOT NULL PRIMARY KEY,
      generation TEXT NOT NULL,
      host_session_id TEXT,
      person_conversation_id TEXT,
      updated_at BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE cursors (
      runtime_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      position BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, conversation_id)
    )
    """,
    # Envelopes other than invokes; a repeated invoke is known by its call.
    """
    CREATE TABLE envelopes_seen (
      runtime_id TEXT NOT NULL,
      agent TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      envelope_id TEXT NOT NULL,
      received_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, agent, conversation_id, envelope_id)
    )
    """,
    # One open per (conversation, app); chat shows it as a collapsible record.
    """
    CREATE TABLE sub_sessions (
      app_session_id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
      created_at BIGINT NOT NULL,
      closed_at BIGINT
    )
    """,
    """
    CREATE UNIQUE INDEX sub_sessions_open ON sub_sessions (runtime_id, conversation_id, app_scope)
      WHERE state = 'open'
    """,
    """
    CREATE TABLE instances (
      instance_id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      app_session_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      app_version TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN
        ('starting', 'foreground', 'background', 'suspended', 'stopping', 'stopped', 'failed')),
      generation BIGINT NOT NULL,
      confirmed_generation BIGINT,
      reason TEXT,
      started_at BIGINT NOT NULL,
      ended_at BIGINT
    )
    """,
    """
    CREATE UNIQUE INDEX instances_live ON instances (runtime_id, conversation_id, app_scope)
      WHERE state IN ('starting', 'foreground', 'background', 'suspended')
    """,
    "CREATE INDEX instances_stopping ON instances (runtime_id, started_at) WHERE state = 'stopping'",
    """
    CREATE TABLE activations (
      activation_id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      instance_id TEXT NOT NULL,
      app_session_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('starting', 'ready', 'failed', 'cancelled')),
      waits_for TEXT NOT NULL CHECK (waits_for IN ('container', 'foreground')),
      reason TEXT,
      deadline_at BIGINT NOT NULL,
      started_at BIGINT NOT NULL,
      ended_at BIGINT
    )
    """,
    "CREATE UNIQUE INDEX activations_of_instance ON activations (instance_id)",
    """
    CREATE UNIQUE INDEX activations_starting ON activations (runtime_id, app_session_id)
      WHERE state = 'starting'
    """,
    # Also the audit of acceptance and end: when, by whom, through which entry (an agent's calls all come
    # through one).
    """
    CREATE TABLE calls (
      arrival INTEGER PRIMARY KEY,
      id TEXT NOT NULL UNIQUE,
      runtime_id TEXT NOT NULL,
      agent TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      call_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      method TEXT NOT NULL,
      contract_version TEXT NOT NULL,
      params TEXT NOT NULL,
      inventory_revision TEXT NOT NULL,
      message_id TEXT NOT NULL,
      envelope_id TEXT NOT NULL,
      trace TEXT,
      state TEXT NOT NULL CHECK (state IN
        ('accepted', 'awaiting_consent', 'waiting_activation', 'waiting_foreground', 'dispatched',
         'operating', 'succeeded', 'failed', 'cancelled')),
      call_model TEXT NOT NULL CHECK (call_model IN ('query', 'command', 'interactive', 'operation')),
      app_session_id TEXT,
      activation_id TEXT,
      operation_id TEXT,
      sequence BIGINT NOT NULL,
      progress BIGINT NOT NULL DEFAULT 0,
      deadline_at BIGINT,
      timeout_ms BIGINT NOT NULL,
      outcome TEXT,
      error_code TEXT,
      accepted_at BIGINT NOT NULL,
      dispatched_at BIGINT,
      ended_at BIGINT,
      ended_by TEXT CHECK (ended_by IN ('agent_tool', 'ui_action', 'host_intent', 'runtime')),
      UNIQUE (runtime_id, call_id, conversation_id, agent)
    )
    """,
    """
    CREATE INDEX calls_live ON calls (runtime_id, app_session_id, call_model)
      WHERE state NOT IN ('succeeded', 'failed', 'cancelled')
    """,
    # Each stage once per call; `sequence` numbers a call's answers, and the call itself counts them.
    """
    CREATE TABLE receipts (
      call_ref TEXT NOT NULL,
      sequence BIGINT NOT NULL,
      stage TEXT NOT NULL CHECK (stage IN
        ('accepted', 'starting', 'activation_ready', 'activation_failed', 'activation_cancelled', 'started',
         'progress')),
      number BIGINT NOT NULL,
      reason TEXT,
      facts TEXT,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (call_ref, stage, number)
    )
    """,
    # `state` is 'active' or one of the outcomes that the tool declares; it is written once.
    """
    CREATE TABLE operations (
      operation_id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      execution TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      app_session_id TEXT NOT NULL,
      instance_id TEXT NOT NULL,
      call_ref TEXT NOT NULL UNIQUE,
      state TEXT NOT NULL,
      on_leave TEXT NOT NULL CHECK (on_leave IN ('interrupt', 'continue')),
      duration_ms BIGINT NOT NULL,
      started_at BIGINT NOT NULL,
      ends_at BIGINT NOT NULL,
      ended_at BIGINT,
      elapsed_ms BIGINT,
      reason TEXT
    )
    """,
    """
    CREATE INDEX operations_active ON operations (runtime_id, conversation_id, app_scope)
      WHERE state = 'active'
    """,
    # The stack of a conversation: highest depth is the foreground; below depth 1 lies chat. Of all
    # conversations' tops the one with the highest `number` is in front: the one that was asked for last.
    """
    CREATE TABLE focus (
      runtime_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      depth BIGINT NOT NULL,
      instance_id TEXT NOT NULL,
      number BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, conversation_id, depth)
    )
    """,
    """
    CREATE TABLE consents (
      consent_id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      call_ref TEXT NOT NULL UNIQUE,
      state TEXT NOT NULL CHECK (state IN ('requested', 'allowed', 'denied', 'expired')),
      requested_at BIGINT NOT NULL,
      decided_at BIGINT
    )
    """,
    "CREATE INDEX consents_open ON consents (runtime_id, requested_at) WHERE state = 'requested'",
    """
    CREATE TABLE outbox (
      position INTEGER PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      key TEXT NOT NULL,
      message TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('pending', 'sent')),
      refusal TEXT,
      created_at BIGINT NOT NULL,
      sent_at BIGINT,
      UNIQUE (runtime_id, conversation_id, key)
    )
    """,
    "CREATE INDEX outbox_pending ON outbox (runtime_id) WHERE state = 'pending'",
    # Written once when an operation ends; never changed.
    """
    CREATE TABLE records (
      record_id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      app_session_id TEXT NOT NULL,
      operation_id TEXT NOT NULL UNIQUE,
      content TEXT NOT NULL,
      created_at BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE inventory_contents (
      runtime_id TEXT NOT NULL,
      revision TEXT NOT NULL,
      payload TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, revision)
    )
    """,
    # The newest publication to each agent in each conversation.
    """
    CREATE TABLE inventories (
      runtime_id TEXT NOT NULL,
      agent TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      revision TEXT NOT NULL,
      number BIGINT NOT NULL,
      active_at BIGINT NOT NULL,
      published_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, agent, conversation_id)
    )
    """,
    "CREATE INDEX inventories_recent ON inventories (runtime_id, active_at)",
    # A rule hides what it matches; an empty field matches everything.
    """
    CREATE TABLE policy_rules (
      rule_id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      agent TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      method TEXT NOT NULL,
      created_at BIGINT NOT NULL
    )
    """,
    # `source` keeps the three entries apart; 'runtime' is what the Runtime did by itself (time, restart).
    # What the rows of calls and receipts tell is not told twice.
    """
    CREATE TABLE audit (
      number INTEGER PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      at BIGINT NOT NULL,
      source TEXT NOT NULL CHECK (source IN ('agent_tool', 'ui_action', 'host_intent', 'runtime')),
      event TEXT NOT NULL,
      actor TEXT,
      conversation_id TEXT,
      app_scope TEXT,
      call_id TEXT,
      call_ref TEXT,
      inventory_revision TEXT,
      code TEXT,
      detail TEXT
    )
    """,
    "CREATE INDEX audit_call ON audit (runtime_id, call_id)",
    """
    CREATE TABLE ui_actions (
      runtime_id TEXT NOT NULL,
      instance_id TEXT NOT NULL,
      action_id TEXT NOT NULL,
      digest TEXT NOT NULL,
      action TEXT NOT NULL,
      received_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, instance_id, action_id)
    )
    """,
    # Pages that may show this device. The key itself is with its page only.
    """
    CREATE TABLE shell_keys (
      runtime_id TEXT NOT NULL,
      digest TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      used_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, digest)
    )
    """,
    # What a surface wants to have back when it is loaded again; goes with its instance.
    """
    CREATE TABLE surface_snapshots (
      runtime_id TEXT NOT NULL,
      instance_id TEXT NOT NULL,
      data TEXT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, instance_id)
    )
    """,
)
