"""Rows of people: made, invited, signed in, removed. SQL only; secrets come and stay as digests."""

from __future__ import annotations

from lineloop.kit.database import Row, Tx
from lineloop.kit.records import record

_COLUMNS = "key, created_at, cookie_digest, invited_until, removed_at"
_GET = f"SELECT {_COLUMNS} FROM users WHERE key = :key"
_PAGE = f"""
SELECT {_COLUMNS} FROM users WHERE removed_at IS NULL AND key > :after ORDER BY key LIMIT :limit
"""
_INVITE = """
INSERT INTO users (key, created_at, invitation_digest, invited_until) VALUES (:key, :now, :digest, :until)
ON CONFLICT (key) DO UPDATE SET invitation_digest = :digest, invited_until = :until, removed_at = NULL
"""
# The code works once: whoever uses it first is the person, on one browser at a time.
_SIGN_IN = """
UPDATE users SET cookie_digest = :cookie, secret_digest = :secret, invitation_digest = NULL,
    invited_until = NULL
WHERE invitation_digest = :digest AND invited_until > :now AND removed_at IS NULL RETURNING key
"""
_REMOVE = """
UPDATE users SET removed_at = :now, cookie_digest = NULL, secret_digest = NULL, invitation_digest = NULL,
    invited_until = NULL
WHERE key = :key AND removed_at IS NULL
"""
_TOKENS_OF = """
SELECT id FROM tokens WHERE revoked_at IS NULL AND (owner_user = :key OR actor_pattern = :actor) ORDER BY id
"""
_REMOVED_SINCE = "SELECT key, removed_at FROM users WHERE removed_at >= :since"


@record
class Person:
    """`signed_in`: there is a cookie that counts. Times UTC milliseconds."""

    key: str
    created_at: int
    signed_in: bool
    invited_until: int | None
    removed_at: int | None


def _person(row: Row) -> Person:
    key, created_at, cookie, until, removed_at = row
    return Person(key, created_at, cookie is not None, until, removed_at)


def get(tx: Tx, key: str) -> Person | None:
    row = tx.one(_GET, {"key": key})
    return _person(row) if row else None


def page(tx: Tx, *, after: str, limit: int) -> list[Person]:
    """By key, without those who were removed."""
    return [_person(row) for row in tx.all(_PAGE, {"after": after, "limit": limit})]


def invite(tx: Tx, key: str, *, digest: str, until: int, now: int) -> None:
    """A new person, or another way in for one that exists or was removed. A cookie goes on counting."""
    tx.run(_INVITE, {"key": key, "digest": digest, "until": until, "now": now})


def sign_in(tx: Tx, digest: str, *, cookie: str, secret: str, now: int) -> str | None:
    """The key of the person whose invitation it was; None for a code that does not count (any more)."""
    row = tx.one(_SIGN_IN, {"digest": digest, "cookie": cookie, "secret": secret, "now": now})
    return row[0] if row else None


def remove(tx: Tx, key: str, now: int) -> bool:
    """Ends every way in of the person but tokens. True when it had not been done."""
    return tx.run(_REMOVE, {"key": key, "now": now}) == 1


def tokens_of(tx: Tx, key: str) -> list[str]:
    """Tokens that act as the person or on their behalf."""
    return [row[0] for row in tx.all(_TOKENS_OF, {"key": key, "actor": f"user/{key}"})]


def removed_since(tx: Tx, since: int) -> frozenset[tuple[str, int]]:
    """Keys of the people who were removed at that time or later, and when."""
    return frozenset((row[0], row[1]) for row in tx.all(_REMOVED_SINCE, {"since": since}))
