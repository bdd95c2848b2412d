"""Tables of conversations, messages, patches, cursors, people, tokens. Imported by the first migration.

Portable SQL (SQLite and PostgreSQL). Times are UTC milliseconds, JSON is text. An absent target is two empty
strings, so that a broadcast is one index range like any other target. The content is the last column of a
message: a read of the other columns never touches its pages.
"""

from __future__ import annotations

CONVERSATIONS_DDL: tuple[str, ...] = (
    # One row is the lock of its counters. `change` counts on root conversations only.
    """
    CREATE TABLE conversations (
        id TEXT NOT NULL PRIMARY KEY,
        name TEXT NOT NULL,
        owner_kind TEXT NOT NULL,
        owner_key TEXT NOT NULL,
        parent_id TEXT REFERENCES conversations (id),
        root_id TEXT NOT NULL,
        actor_kind TEXT NOT NULL,
        actor_key TEXT NOT NULL,
        last_ordinal BIGINT NOT NULL DEFAULT 0,
        last_offset BIGINT NOT NULL DEFAULT 0,
        change BIGINT NOT NULL DEFAULT 0,
        notify_pending INTEGER NOT NULL DEFAULT 0,
        created_at BIGINT NOT NULL
    )
    """,
    # A root conversation has no process actor; a process conversation is one per parent and actor.
    """
    CREATE UNIQUE INDEX conversations_process ON conversations (parent_id, actor_kind, actor_key)
        WHERE parent_id IS NOT NULL
    """,
    "CREATE INDEX conversations_roots ON conversations (owner_kind, owner_key, id) WHERE parent_id IS NULL",
    "CREATE INDEX conversations_to_notify ON conversations (id) WHERE notify_pending = 1",
    """
    CREATE TABLE messages (
        id TEXT NOT NULL PRIMARY KEY,
        conversation_id TEXT NOT NULL REFERENCES conversations (id),
        root_id TEXT NOT NULL,
        actor_kind TEXT NOT NULL,
        actor_key TEXT NOT NULL,
        target_kind TEXT NOT NULL,
        target_key TEXT NOT NULL,
        key TEXT NOT NULL,
        reply_to_id TEXT,
        purpose TEXT NOT NULL CHECK (purpose IN
            ('speech', 'input', 'question', 'answer', 'run', 'envelope', 'inventory')),
        status TEXT NOT NULL CHECK (status IN ('streaming', 'completed', 'failed', 'cancelled')),
        revision BIGINT NOT NULL,
        ordinal BIGINT NOT NULL,
        offset_ BIGINT,
        change BIGINT NOT NULL,
        run_id TEXT,
        on_behalf_kind TEXT,
        on_behalf_key TEXT,
        call_id TEXT,
        digest TEXT,
        due_at BIGINT,
        question TEXT,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        snapshot_revision BIGINT NOT NULL,
        content TEXT NOT NULL,
        UNIQUE (conversation_id, key, actor_kind, actor_key),
        UNIQUE (conversation_id, ordinal),
        CHECK ((status = 'streaming') = (offset_ IS NULL))
    )
    """,
    "CREATE INDEX messages_inbox ON messages (conversation_id, target_kind, target_key, offset_)",
    "CREATE INDEX messages_changes ON messages (root_id, change)",
    "CREATE INDEX messages_open ON messages (root_id) WHERE status = 'streaming'",
    "CREATE INDEX messages_silent ON messages (updated_at) WHERE status = 'streaming'",
    """
    CREATE INDEX messages_unfolded ON messages (id)
        WHERE status <> 'streaming' AND snapshot_revision < revision
    """,
    "CREATE INDEX messages_replies ON messages (reply_to_id) WHERE reply_to_id IS NOT NULL",
    # What opens a call has the call's id as its key and is found by that.
    "CREATE INDEX messages_calls ON messages (conversation_id, call_id) WHERE call_id <> key",
    "CREATE INDEX messages_due ON messages (due_at) WHERE due_at IS NOT NULL",
    # The log is the truth of an open stream: an append writes here and nowhere else.
    """
    CREATE TABLE patches (
        message_id TEXT NOT NULL,
        seq BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        patch TEXT NOT NULL,
        PRIMARY KEY (message_id, seq)
    )
    """,
    # end_offset: the last deliverable message; wake_offset: the last one that is not an envelope or
    # inventory.
    """
    CREATE TABLE consumers (
        conversation_id TEXT NOT NULL REFERENCES conversations (id),
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        process_conversation_id TEXT,
        previous_end_offset BIGINT NOT NULL DEFAULT 0,
        end_offset BIGINT NOT NULL DEFAULT 0,
        wake_offset BIGINT NOT NULL DEFAULT 0,
        position BIGINT NOT NULL DEFAULT 0,
        committed BIGINT NOT NULL DEFAULT 0,
        joined_at BIGINT NOT NULL,
        PRIMARY KEY (conversation_id, kind, key),
        CHECK (committed <= position)
    )
    """,
    "CREATE INDEX consumers_by_actor ON consumers (kind, key, conversation_id)",
    """
    CREATE TABLE actors (
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        display_name TEXT NOT NULL,
        description TEXT NOT NULL,
        lease_until BIGINT NOT NULL,
        PRIMARY KEY (kind, key)
    )
    """,
    """
    CREATE TABLE tokens (
        id TEXT NOT NULL PRIMARY KEY,
        digest TEXT NOT NULL UNIQUE,
        actor_pattern TEXT NOT NULL,
        verbs TEXT,
        owner_user TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        revoked_at BIGINT
    )
    """,
    """
    CREATE TABLE users (
        key TEXT NOT NULL PRIMARY KEY,
        cookie_digest TEXT UNIQUE,
        secret_digest TEXT,
        active_device TEXT,
        created_at BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE leases (
        resource TEXT NOT NULL PRIMARY KEY,
        holder TEXT NOT NULL,
        token BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    )
    """,
    "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
)
