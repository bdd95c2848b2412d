"""What the second schema adds: conversation care — archive, read positions, search, blobs, retention.

Portable SQL, with one exception: the words of messages are found by FTS5 on SQLite and by a tsvector on
PostgreSQL (decision 0028). Statements run in order, on an empty database as on one with data.
"""

from __future__ import annotations

from lineloop.server.migrations.dialects import for_postgres

CARE_DDL: tuple[str, ...] = (
    # Null: not archived. Only root conversations are.
    "ALTER TABLE conversations ADD COLUMN archived_at BIGINT",
    # How far a person has read; beyond it lies what is unread.
    """
    CREATE TABLE read_positions (
        user_key TEXT NOT NULL,
        conversation_id TEXT NOT NULL REFERENCES conversations (id),
        ordinal BIGINT NOT NULL,
        PRIMARY KEY (user_key, conversation_id)
    )
    """,
    # What was said before positions were kept counts as read.
    """
    INSERT INTO read_positions (user_key, conversation_id, ordinal)
    SELECT m.key, c.id, c.last_ordinal FROM consumers AS m
    JOIN conversations AS c ON c.root_id = m.conversation_id WHERE m.kind = 'user' AND c.last_ordinal > 0
    """,
    # Up to which change of a root conversation its messages are in the index.
    "CREATE TABLE search_progress (root_id TEXT NOT NULL PRIMARY KEY, change BIGINT NOT NULL)",
    "CREATE INDEX ledger_by_blob ON ledger (blob_hash) WHERE blob_hash IS NOT NULL",
)

# One row per message that can be found; `id` counts in the order in which they became findable.
_DOCUMENTS_SQLITE = """
CREATE TABLE search_documents (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    root_id TEXT NOT NULL
)
"""
_DOCUMENTS_POSTGRES = """
CREATE TABLE search_documents (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    root_id TEXT NOT NULL,
    terms TSVECTOR NOT NULL
)
"""
# The terms are made by us; the tokenizer only parts them at blanks.
_TERMS_SQLITE = "CREATE VIRTUAL TABLE search_terms USING fts5 (terms, tokenize = 'ascii')"
_TERMS_POSTGRES = "CREATE INDEX search_documents_terms ON search_documents USING gin (terms)"

BLOBS_DDL: tuple[str, ...] = (
    # `stored_at`: last uploaded or referred to; what nobody refers to goes a while after that. `place`: under
    # which name the bytes lie.
    """
    CREATE TABLE blobs (
        hash TEXT NOT NULL PRIMARY KEY,
        bytes BIGINT NOT NULL,
        place TEXT NOT NULL UNIQUE,
        stored_at BIGINT NOT NULL
    )
    """,
    "CREATE INDEX blobs_by_age ON blobs (stored_at)",
    """
    CREATE TABLE blob_uploads (
        hash TEXT NOT NULL REFERENCES blobs (hash),
        actor_kind TEXT NOT NULL,
        actor_key TEXT NOT NULL,
        media_type TEXT NOT NULL,
        PRIMARY KEY (hash, actor_kind, actor_key)
    )
    """,
    """
    CREATE TABLE blob_references (
        hash TEXT NOT NULL REFERENCES blobs (hash),
        message_id TEXT NOT NULL,
        block_id TEXT NOT NULL,
        conversation_id TEXT NOT NULL,
        name TEXT NOT NULL,
        media_type TEXT NOT NULL,
        PRIMARY KEY (hash, message_id, block_id)
    )
    """,
    "CREATE INDEX blob_references_by_message ON blob_references (message_id)",
    # The bytes of blobs where servers share a database and no directory.
    """
    CREATE TABLE blob_parts (
        place TEXT NOT NULL,
        seq INTEGER NOT NULL,
        stored_at BIGINT NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (place, seq)
    )
    """,
)

# Small rows under a key of several parts: on SQLite the key's tree then holds the row itself.
_CLUSTERED = ("read_positions", "search_progress", "blob_uploads", "blob_references")


def second_statements(*, sqlite: bool) -> list[str]:
    """The statements for SQLite, or for PostgreSQL."""
    documents = (_DOCUMENTS_SQLITE, _TERMS_SQLITE) if sqlite else (_DOCUMENTS_POSTGRES, _TERMS_POSTGRES)
    statements: list[str] = []
    for statement in (*CARE_DDL, *documents, *BLOBS_DDL):
        text = statement.replace("{bytes}", "BLOB" if sqlite else "BYTEA").rstrip()
        clustered = sqlite and any(f"CREATE TABLE {name} (" in text for name in _CLUSTERED)
        statements.append(f"{text} WITHOUT ROWID" if clustered else text)
    return statements if sqlite else [for_postgres(statement) for statement in statements]
