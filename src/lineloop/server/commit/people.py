"""The jobs of people: invite, sign in, remove (spec/protocol.md §8.7).

Secrets are made by the caller and enter as they are; only digests are stored.
"""

from __future__ import annotations

from lineloop.kit.database import Tx
from lineloop.protocol.errors import InvalidRequest, NotFound, Unauthorized
from lineloop.server.commit.accounts import digest_of
from lineloop.server.commit.context import CommitContext
from lineloop.server.decide.access import LOCAL_USER
from lineloop.server.store import identities, people
from lineloop.server.store.people import Person

INVITATION_MS = 24 * 3600 * 1000


def invite_person_in(tx: Tx, ctx: CommitContext, key: str, code: str) -> tuple[Person, bool]:
    """A person and the code that lets them in once within a day; True when nobody had that key.

    Asked for again, the earlier code ends. Raises InvalidRequest for the local person, who needs none.
    """
    if key == LOCAL_USER:
        raise InvalidRequest("the local person is let in without an invitation", pointer="/key")
    before = people.get(tx, key)
    now = ctx.clock.now_ms()
    people.invite(tx, key, digest=digest_of(code), until=now + INVITATION_MS, now=now)
    person = people.get(tx, key)
    assert person is not None
    return person, before is None


def sign_in_in(tx: Tx, ctx: CommitContext, code: str, cookie: str, secret: str) -> str:
    """The key of the person who was invited with the code. Raises Unauthorized."""
    key = people.sign_in(
        tx,
        digest_of(code),
        cookie=digest_of(cookie),
        secret=digest_of(secret),
        now=ctx.clock.now_ms(),
    )
    if key is None:
        raise Unauthorized("this code lets nobody in (any more)")
    return key


def remove_person_in(tx: Tx, ctx: CommitContext, key: str) -> list[str]:
    """Ends every way in of a person; the tokens that ended with it. What they said stays.

    Raises NotFound, InvalidRequest for the local person.
    """
    if key == LOCAL_USER:
        raise InvalidRequest("the local person stays", pointer="/key")
    now = ctx.clock.now_ms()
    if not people.remove(tx, key, now):
        raise NotFound("no such person", detail={"key": key})
    tokens = people.tokens_of(tx, key)
    for token_id in tokens:
        identities.revoke_token(tx, token_id, now)
    return tokens
