"""What the third schema adds: who was taken out of a conversation, invitations of people, refusals.

Portable SQL; statements run in order, on an empty database as on one with data.
"""

from __future__ import annotations

from lineloop.server.migrations.dialects import for_postgres

PEOPLE_DDL: tuple[str, ...] = (
    # Counts who was taken out of the root conversation, on each of its conversations: what is remembered of
    # who takes part counts no more when this has moved.
    "ALTER TABLE conversations ADD COLUMN membership BIGINT NOT NULL DEFAULT 0",
    # Who was taken out, and how far it had read: it comes back by invitation only, and goes on from there.
    """
    CREATE TABLE removed_participants (
        conversation_id TEXT NOT NULL REFERENCES conversations (id),
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        process_conversation_id TEXT,
        committed BIGINT NOT NULL,
        removed_at BIGINT NOT NULL,
        PRIMARY KEY (conversation_id, kind, key)
    )
    """,
    # A person that an administrator made signs in once with the code of an invitation.
    "ALTER TABLE users ADD COLUMN invitation_digest TEXT",
    "ALTER TABLE users ADD COLUMN invited_until BIGINT",
    "ALTER TABLE users ADD COLUMN removed_at BIGINT",
    """
    CREATE UNIQUE INDEX users_by_invitation ON users (invitation_digest) WHERE invitation_digest IS NOT NULL
    """,
    # What was refused to whom: one row for equal refusals of a while. Never a word of what was sent.
    """
    CREATE TABLE refusals (
        id TEXT NOT NULL PRIMARY KEY,
        code TEXT NOT NULL,
        action TEXT NOT NULL,
        credential TEXT NOT NULL,
        actor TEXT NOT NULL,
        peer TEXT NOT NULL,
        count BIGINT NOT NULL,
        first_at BIGINT NOT NULL,
        last_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX refusals_by_age ON refusals (last_at)",
)

# Small rows under a key of several parts: on SQLite the key's tree then holds the row itself.
_CLUSTERED = ("removed_participants",)


def third_statements(*, sqlite: bool) -> list[str]:
    """The statements for SQLite, or for PostgreSQL."""
    statements: list[str] = []
    for statement in PEOPLE_DDL:
        text = statement.rstrip()
        clustered = sqlite and any(f"CREATE TABLE {name} (" in text for name in _CLUSTERED)
        statements.append(f"{text} WITHOUT ROWID" if clustered else text)
    return statements if sqlite else [for_postgres(statement) for statement in statements]
