"""Tables of apps: registry, session data, inbox and the person's history. Imported by the first migration.

Portable SQL (SQLite and PostgreSQL). Every row carries runtime_id. Times are UTC milliseconds, JSON is text.
"""

from __future__ import annotations

APPS_DDL: tuple[str, ...] = (
    # One row per app. `manifest` is the verified manifest, `location` a folder below the data dir (or
    # 'core:<scope>' / 'shipped:<scope>' for apps that come with the package).
    """
    CREATE TABLE apps (
      runtime_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      kind TEXT NOT NULL CHECK (kind IN ('core', 'installed')),
      installed_version TEXT NOT NULL,
      previous_version TEXT,
      enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
      install_state TEXT NOT NULL CHECK (install_state IN
        ('downloading', 'verifying', 'installed', 'updating', 'failed')),
      unavailable TEXT,
      manifest TEXT NOT NULL,
      digest TEXT NOT NULL,
      location TEXT NOT NULL,
      developer INTEGER NOT NULL DEFAULT 0,
      installed_at BIGINT NOT NULL,
      enabled_at BIGINT,
      PRIMARY KEY (runtime_id, app_scope)
    )
    """,
    # Apps that came with the package and were removed by the person stay removed.
    """
    CREATE TABLE app_removals (
      runtime_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      removed_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, app_scope)
    )
    """,
    """
    CREATE TABLE app_operations (
      id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      app_scope TEXT,
      kind TEXT NOT NULL CHECK (kind IN ('install', 'enable', 'disable', 'update', 'rollback', 'remove')),
      state TEXT NOT NULL CHECK (state IN ('pending', 'running', 'succeeded', 'failed')),
      step TEXT NOT NULL,
      request TEXT NOT NULL,
      error_code TEXT,
      error_message TEXT,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX app_operations_live ON app_operations (runtime_id, state, created_at)",
    """
    CREATE TABLE session_data (
      runtime_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      app_session_id TEXT NOT NULL,
      revision BIGINT NOT NULL CHECK (revision >= 1),
      data TEXT NOT NULL,
      size_bytes BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, app_scope, app_session_id)
    )
    """,
    """
    CREATE TABLE session_data_usage (
      runtime_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      size_bytes BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, app_scope)
    )
    """,
    # `position` orders the inbox of one app; `critical` messages need an explicit acknowledgement.
    """
    CREATE TABLE app_inbox (
      id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      app_scope TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      app_session_id TEXT,
      position BIGINT NOT NULL,
      message_id TEXT NOT NULL,
      type TEXT NOT NULL,
      call_id TEXT,
      critical INTEGER NOT NULL CHECK (critical IN (0, 1)),
      state TEXT NOT NULL CHECK (state IN ('pending', 'acknowledged', 'rejected')),
      payload TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      closed_at BIGINT,
      UNIQUE (runtime_id, app_scope, position),
      UNIQUE (runtime_id, app_scope, message_id)
    )
    """,
    "CREATE INDEX app_inbox_pending ON app_inbox (runtime_id, app_scope, state, position)",
    # What the person has seen: one row per message, newest version, as lineup.content envelope. `author` is
    # who answers for the message, `run_id` the run that writes it.
    """
    CREATE TABLE person_messages (
      runtime_id TEXT NOT NULL,
      message_id TEXT NOT NULL,
      root_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      ordinal BIGINT NOT NULL,
      revision BIGINT NOT NULL,
      status TEXT NOT NULL,
      purpose TEXT NOT NULL,
      author TEXT NOT NULL,
      run_id TEXT,
      message TEXT NOT NULL,
      envelope TEXT NOT NULL,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, message_id)
    )
    """,
    "CREATE INDEX person_messages_order ON person_messages (runtime_id, conversation_id, ordinal)",
    """
    CREATE INDEX person_messages_of_run ON person_messages (runtime_id, run_id) WHERE run_id IS NOT NULL
    """,
    # Conversations that the person takes part in, and the process conversations below them (`actor` is
    # whose). Everything from ordinal `held_from` on is in person_messages; NULL: not known. `opening` is the
    # beginning of the first message, for conversations without a name.
    """
    CREATE TABLE person_conversations (
      runtime_id TEXT NOT NULL,
      conversation_id TEXT NOT NULL,
      root_id TEXT NOT NULL,
      actor TEXT,
      name TEXT NOT NULL,
      opening TEXT,
      created_at TEXT,
      read_ordinal BIGINT NOT NULL,
      held_from BIGINT,
      PRIMARY KEY (runtime_id, conversation_id)
    )
    """,
    "CREATE INDEX person_conversations_of_root ON person_conversations (runtime_id, root_id)",
    # Whom the person may address, as they were last heard of.
    """
    CREATE TABLE person_recipients (
      runtime_id TEXT NOT NULL,
      kind TEXT NOT NULL,
      key TEXT NOT NULL,
      display_name TEXT NOT NULL,
      description TEXT NOT NULL,
      PRIMARY KEY (runtime_id, kind, key)
    )
    """,
    """
    CREATE TABLE person_streams (
      runtime_id TEXT NOT NULL,
      root_id TEXT NOT NULL,
      last_event_id TEXT,
      updated_at BIGINT NOT NULL,
      PRIMARY KEY (runtime_id, root_id)
    )
    """,
    # What the person says and answers until the server has it. Apart from the device's outbox: another
    # credential speaks it. `message_id` is the message that a sent entry became.
    """
    CREATE TABLE person_outbox (
      id TEXT NOT NULL PRIMARY KEY,
      runtime_id TEXT NOT NULL,
      position BIGINT NOT NULL,
      conversation_id TEXT NOT NULL,
      key TEXT NOT NULL,
      kind TEXT NOT NULL CHECK (kind IN ('speak', 'answer')),
      body TEXT NOT NULL,
      state TEXT NOT NULL CHECK (state IN ('pending', 'sent')),
      refusal TEXT,
      message_id TEXT,
      created_at BIGINT NOT NULL,
      sent_at BIGINT,
      UNIQUE (runtime_id, position),
      UNIQUE (runtime_id, conversation_id, key)
    )
    """,
    "CREATE INDEX person_outbox_pending ON person_outbox (runtime_id, position) WHERE state = 'pending'",
    # What a page has to be told of when it opens a conversation: what is not sent, refused, or just sent.
    """
    CREATE INDEX person_outbox_of_conversation ON person_outbox (runtime_id, conversation_id, position)
    """,
)
