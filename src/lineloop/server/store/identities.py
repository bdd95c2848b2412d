"""Rows of tokens, people and registered actors. SQL only; secrets arrive and are kept as digests."""

from __future__ import annotations

from lineloop.kit.database import Row, Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import InvalidRequest

_BY_DIGEST = "SELECT * FROM tokens WHERE digest = :digest AND revoked_at IS NULL"
_INSERT_GRANT = """
INSERT INTO tokens (id, digest, actor_pattern, verbs, owner_user, created_at)
VALUES (:id, :digest, :actor_pattern, :verbs, :owner_user, :created_at)
"""
_TOKENS = "SELECT * FROM tokens WHERE revoked_at IS NULL AND id > :after ORDER BY id LIMIT :limit"
_REVOKE = "UPDATE tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL"
_REVOKED_SINCE = "SELECT id FROM tokens WHERE revoked_at >= :since"
_USER_BY_COOKIE = "SELECT * FROM users WHERE cookie_digest = :digest"
_INSERT_USER = """
INSERT INTO users (key, cookie_digest, secret_digest, created_at) VALUES (:key, :cookie, :secret, :now)
ON CONFLICT (key) DO NOTHING
"""
_ACTIVE_DEVICE = "SELECT active_device FROM users WHERE key = :key"
_IS_DEVICE_OF = """
SELECT 1 FROM users WHERE key = :user AND active_device = :device
UNION ALL
SELECT 1 FROM tokens WHERE owner_user = :user AND actor_pattern = :runtime AND revoked_at IS NULL
"""
_IS_KNOWN_DEVICE = """
SELECT 1 FROM users WHERE active_device = :device
UNION ALL
SELECT 1 FROM tokens WHERE actor_pattern = :runtime AND revoked_at IS NULL
UNION ALL
SELECT 1 FROM actors WHERE kind = :kind AND key = :device
"""
_SET_ACTIVE_DEVICE = """
UPDATE users SET active_device = :device WHERE key = :key AND active_device IS NULL
"""
_REGISTER = """
INSERT INTO actors (kind, key, display_name, description, lease_until)
VALUES (:kind, :key, :display_name, :description, :lease_until)
ON CONFLICT (kind, key) DO UPDATE SET display_name = :display_name, description = :description,
    lease_until = CASE WHEN actors.lease_until > :lease_until THEN actors.lease_until ELSE :lease_until END
"""
_LIVE = """
SELECT * FROM actors WHERE lease_until > :now AND kind || '/' || key > :after
ORDER BY kind || '/' || key LIMIT :limit
"""


@record
class TokenRow:
    """A stored token; `verbs` None means all ordinary ones, `pattern` None that no actor is stored."""

    id: str
    pattern: Actor | None
    verbs: list[str] | None
    owner_user: str
    created_at: int


@record
class UserRow:
    """A person who came with a cookie."""

    key: str
    secret_digest: str | None


@record
class ActorRow:
    """A registered actor; `lease_until` UTC milliseconds."""

    kind: str
    key: str
    display_name: str
    description: str
    lease_until: int


def _token(row: Row) -> TokenRow:
    verbs: str | None = row["verbs"]
    return TokenRow(
        id=row["id"],
        pattern=_pattern(row["actor_pattern"]),
        verbs=verbs.split(",") if verbs is not None else None,
        owner_user=row["owner_user"],
        created_at=row["created_at"],
    )


def _pattern(stored: str) -> Actor | None:
    try:
        return Actor.parse(stored)
    except InvalidRequest:
        return None


def token_by_digest(tx: Tx, digest: str) -> TokenRow | None:
    row = tx.one(_BY_DIGEST, {"digest": digest})
    return _token(row) if row else None


def insert_token(tx: Tx, token: TokenRow, digest: str) -> None:
    tx.run(
        _INSERT_GRANT,
        {
            "id": token.id,
            "digest": digest,
            "actor_pattern": str(token.pattern),
            "verbs": ",".join(token.verbs) if token.verbs is not None else None,
            "owner_user": token.owner_user,
            "created_at": token.created_at,
        },
    )


def tokens(tx: Tx, *, after: str, limit: int) -> list[TokenRow]:
    return [_token(row) for row in tx.all(_TOKENS, {"after": after, "limit": limit})]


def revoke_token(tx: Tx, token_id: str, now: int) -> bool:
    return tx.run(_REVOKE, {"id": token_id, "now": now}) == 1


def revoked_since(tx: Tx, since: int) -> frozenset[str]:
    """Ids of the tokens that were revoked at that time or later."""
    return frozenset(row[0] for row in tx.all(_REVOKED_SINCE, {"since": since}))


def user_by_cookie(tx: Tx, digest: str) -> UserRow | None:
    row = tx.one(_USER_BY_COOKIE, {"digest": digest})
    return UserRow(row["key"], row["secret_digest"]) if row else None


def insert_user(tx: Tx, key: str, *, cookie: str | None, secret: str | None, now: int) -> None:
    """`cookie` and `secret` are digests. An existing user stays as it is."""
    tx.run(_INSERT_USER, {"key": key, "cookie": cookie, "secret": secret, "now": now})


def active_device(tx: Tx, user_key: str) -> str | None:
    row = tx.one(_ACTIVE_DEVICE, {"key": user_key})
    return row[0] if row else None


def is_device_of(tx: Tx, user_key: str, runtime: Actor) -> bool:
    """Whether the device is the person's active one, or has a token made on their behalf."""
    params = {"user": user_key, "device": runtime.key, "runtime": str(runtime)}
    return tx.one(_IS_DEVICE_OF, params) is not None


def is_known_device(tx: Tx, runtime: Actor) -> bool:
    """Whether the device is anybody's active one, has a token, or was registered."""
    params = {"device": runtime.key, "runtime": str(runtime), "kind": runtime.kind}
    return tx.one(_IS_KNOWN_DEVICE, params) is not None


def set_first_device(tx: Tx, user_key: str, device: str) -> bool:
    """True when the person had no active device until now."""
    return tx.run(_SET_ACTIVE_DEVICE, {"key": user_key, "device": device}) == 1


def register(tx: Tx, actor: ActorRow) -> None:
    """Several holders may renew one registration; the latest end counts."""
    tx.run(
        _REGISTER,
        {
            "kind": actor.kind,
            "key": actor.key,
            "display_name": actor.display_name,
            "description": actor.description,
            "lease_until": actor.lease_until,
        },
    )


def live_actors(tx: Tx, *, now: int, after: str, limit: int) -> list[ActorRow]:
    return [
        ActorRow(row["kind"], row["key"], row["display_name"], row["description"], row["lease_until"])
        for row in tx.all(_LIVE, {"now": now, "after": after, "limit": limit})
    ]
