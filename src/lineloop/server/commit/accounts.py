"""The jobs of identities: tokens, people, registered actors (spec/protocol.md §8.1).

Secrets enter as digests; who may call these is decided by the caller's grant.
"""

from __future__ import annotations

import hashlib

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import NotFound
from lineloop.server.commit.context import CommitContext
from lineloop.server.decide.access import ORDINARY_VERBS, Grant, Verb, person_grant
from lineloop.server.store import identities
from lineloop.server.store.identities import ActorRow, TokenRow


@record
class CreateToken:
    """A token for everyone that fits `pattern`; its secret is known to the caller only."""

    token_id: str
    secret: str
    pattern: Actor
    verbs: frozenset[Verb]
    owner_user: str


def digest_of(secret: str) -> str:
    """What is stored of a secret. The secrets are long and random, so a plain hash is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create_token_in(tx: Tx, ctx: CommitContext, command: CreateToken) -> TokenRow:
    verbs = None if command.verbs == ORDINARY_VERBS else sorted(str(verb) for verb in command.verbs)
    row = TokenRow(command.token_id, command.pattern, verbs, command.owner_user, ctx.clock.now_ms())
    identities.insert_token(tx, row, digest_of(command.secret))
    return row


def revoke_token_in(tx: Tx, ctx: CommitContext, token_id: str) -> None:
    """Raises NotFound."""
    if not identities.revoke_token(tx, token_id, ctx.clock.now_ms()):
        raise NotFound("no such token", detail={"token_id": token_id})


def grant_of_token(tx: Tx, secret: str) -> Grant | None:
    """What the presented secret allows; None when it is not (or no longer) a token.

    Stored words that are no ordinary verb allow nothing, and so does a pattern that names nobody.
    """
    row = identities.token_by_digest(tx, digest_of(secret))
    if row is None or row.pattern is None:
        return None
    verbs = ORDINARY_VERBS
    if row.verbs is not None:
        verbs = frozenset(verb for verb in ORDINARY_VERBS if str(verb) in row.verbs)
    return Grant(row.pattern, verbs, row.owner_user, token_id=row.id)


@record
class CookiePerson:
    """A person known by a cookie, and the digest of the header secret that writes need as well."""

    grant: Grant
    secret_digest: str | None


def person_of_cookie(tx: Tx, cookie: str) -> CookiePerson | None:
    row = identities.user_by_cookie(tx, digest_of(cookie))
    return CookiePerson(person_grant(row.key), row.secret_digest) if row else None


def create_person_in(tx: Tx, ctx: CommitContext, key: str, cookie: str, secret: str) -> None:
    identities.insert_user(
        tx, key, cookie=digest_of(cookie), secret=digest_of(secret), now=ctx.clock.now_ms()
    )


def register_in(
    tx: Tx, ctx: CommitContext, actor: Actor, *, display_name: str, description: str, lease_ms: int
) -> ActorRow:
    """Lists the actor until its lease ends; renewing is the same call."""
    row = ActorRow(actor.kind, actor.key, display_name, description, ctx.clock.now_ms() + lease_ms)
    identities.register(tx, row)
    return row
