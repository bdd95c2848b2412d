"""The index of messages by their terms: FTS5 on SQLite, a tsvector on PostgreSQL. SQL only.

Terms are made by `decide.searching`; they are letters and digits only, so that nothing in them means anything
to a database. Documents are numbered in the order in which they became findable; a page is what lies below a
number.
"""

from __future__ import annotations

from collections.abc import Sequence

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.server.phrases import Phrase

_INSERT_SQLITE = """
INSERT INTO search_documents (message_id, conversation_id, root_id) VALUES (:message, :conversation, :root)
ON CONFLICT (message_id) DO NOTHING RETURNING id
"""
_INSERT_TERMS_SQLITE = "INSERT INTO search_terms (rowid, terms) VALUES (:id, :terms)"
_INSERT_POSTGRES = """
INSERT INTO search_documents (message_id, conversation_id, root_id, terms)
VALUES (:message, :conversation, :root, CAST(CAST(:terms AS TEXT) AS TSVECTOR))
ON CONFLICT (message_id) DO NOTHING
"""
_FIND_SQLITE = """
SELECT d.id, d.message_id, d.conversation_id, d.root_id FROM search_terms AS t
JOIN search_documents AS d ON d.id = t.rowid WHERE t.terms MATCH :terms AND t.rowid < :below
"""
_ORDER_SQLITE = "ORDER BY t.rowid DESC LIMIT :limit"
_FIND_POSTGRES = """
SELECT d.id, d.message_id, d.conversation_id, d.root_id FROM search_documents AS d
WHERE d.terms @@ CAST(CAST(:terms AS TEXT) AS TSQUERY) AND d.id < :below
"""
_ORDER_POSTGRES = "ORDER BY d.id DESC LIMIT :limit"
_WITHIN = "AND (d.conversation_id = :within OR d.root_id = :within)"
_OF_MEMBER = """
AND EXISTS (SELECT 1 FROM consumers AS m WHERE m.conversation_id = d.root_id
    AND m.kind = :kind AND m.key = :key)
"""
_REMOVE_TERMS_SQLITE = """
DELETE FROM search_terms WHERE rowid = (SELECT id FROM search_documents WHERE message_id = :message)
"""
_REMOVE = "DELETE FROM search_documents WHERE message_id = :message"
_PROGRESS = "SELECT change FROM search_progress WHERE root_id = :root"
_ADVANCE = """
INSERT INTO search_progress (root_id, change) VALUES (:root, :change)
ON CONFLICT (root_id) DO UPDATE SET change = excluded.change WHERE search_progress.change < excluded.change
"""
_BEHIND = """
SELECT c.id FROM conversations AS c LEFT JOIN search_progress AS p ON p.root_id = c.id
WHERE c.parent_id IS NULL AND c.id > :after AND c.change > coalesce(p.change, 0) ORDER BY c.id LIMIT :limit
"""

FIRST_PAGE = 2**62
# A tsvector keeps this many places of one term; positions beyond the last are not told apart.
_PLACES = 256
_LAST_PLACE = 16_383


@record
class Document:
    """A message that can be found, and its terms in order."""

    message_id: str
    conversation_id: str
    root_id: str
    terms: Sequence[str]


@record
class Wanted:
    """What is asked for. `below` is a document's number; `within` a conversation, of whose root conversations
    the process conversations count too; `member` takes part in what is looked through.
    """

    phrases: Sequence[Phrase]
    below: int = FIRST_PAGE
    limit: int = 50
    within: str | None = None
    member: Actor | None = None


@record
class Found:
    """A document. `id` is its number."""

    id: int
    message_id: str
    conversation_id: str
    root_id: str


def insert(tx: Tx, document: Document) -> None:
    """A message that is known already stays as it is."""
    params: dict[str, object] = {
        "message": document.message_id,
        "conversation": document.conversation_id,
        "root": document.root_id,
    }
    if tx.shared:
        tx.run(_INSERT_POSTGRES, {**params, "terms": _vector(document.terms)})
        return
    row = tx.one(_INSERT_SQLITE, params)
    if row is not None:
        tx.run(_INSERT_TERMS_SQLITE, {"id": row[0], "terms": " ".join(document.terms)})


def find(tx: Tx, wanted: Wanted) -> list[Found]:
    """The newest first, below the number that was given."""
    sql = [_FIND_POSTGRES if tx.shared else _FIND_SQLITE]
    params: dict[str, object] = {"below": wanted.below, "limit": wanted.limit}
    params["terms"] = _postgres_query(wanted.phrases) if tx.shared else _sqlite_query(wanted.phrases)
    if wanted.within is not None:
        sql.append(_WITHIN)
        params["within"] = wanted.within
    if wanted.member is not None:
        sql.append(_OF_MEMBER)
        params |= {"kind": wanted.member.kind, "key": wanted.member.key}
    sql.append(_ORDER_POSTGRES if tx.shared else _ORDER_SQLITE)
    return [Found(row[0], row[1], row[2], row[3]) for row in tx.all(" ".join(sql), params)]


def remove(tx: Tx, message_id: str) -> None:
    """The message is found no more, and its terms are gone."""
    if not tx.shared:
        tx.run(_REMOVE_TERMS_SQLITE, {"message": message_id})
    tx.run(_REMOVE, {"message": message_id})


def progress(tx: Tx, root_id: str) -> int:
    """Up to which change of the root conversation its messages are in the index."""
    row = tx.one(_PROGRESS, {"root": root_id})
    return row[0] if row else 0


def advance(tx: Tx, root_id: str, change: int) -> None:
    tx.run(_ADVANCE, {"root": root_id, "change": change})


def behind(tx: Tx, *, after: str, limit: int) -> list[str]:
    """Root conversations that have moved on since they were last looked through, by id."""
    return [row[0] for row in tx.all(_BEHIND, {"after": after, "limit": limit})]


def _sqlite_query(phrases: Sequence[Phrase]) -> str:
    return " AND ".join(f'"{" ".join(one.terms)}"{" *" if one.prefix else ""}' for one in phrases)


def _postgres_query(phrases: Sequence[Phrase]) -> str:
    return " & ".join(f"({_followed(one)})" for one in phrases)


def _followed(phrase: Phrase) -> str:
    quoted = [f"'{term}'" for term in phrase.terms]
    return " <-> ".join(quoted) + (":*" if phrase.prefix else "")


def _vector(terms: Sequence[str]) -> str:
    places: dict[str, list[int]] = {}
    for place, term in enumerate(terms, 1):
        known = places.setdefault(term, [])
        if len(known) < _PLACES:
            known.append(min(place, _LAST_PLACE))
    return " ".join(f"'{term}':{','.join(map(str, known))}" for term, known in places.items())
