"""How a credential arrives: bearer token, cookie and secret, or a header of the host's own proxy.

Decides which grant a request has. What a grant allows is decided in `decide.access`; what is stored, in
`commit.accounts`. A cookie is shared between all ports of a machine, so it never suffices for a write: the
header secret that only the page's own storage knows comes with it.
"""

from __future__ import annotations

import hmac
from typing import Protocol

from starlette.requests import HTTPConnection

from lineloop.protocol.actors import USER, Actor
from lineloop.protocol.errors import InvalidRequest, Unauthorized
from lineloop.server.commit import Commits
from lineloop.server.commit.accounts import digest_of, grant_of_token, person_of_cookie
from lineloop.server.decide.access import Grant, Verb, admin_grant, is_pattern, person_grant
from lineloop.server.http.rates import RateLimits
from lineloop.server.store import people

COOKIE = "lineloop_user"
SECRET_HEADER = "x-lineloop-secret"  # noqa: S105 (the header's name)
MAX_CACHED_TOKENS = 10_000
SAFE_METHODS = frozenset({"GET", "HEAD"})


def address_of(request: HTTPConnection) -> str:
    """Where a request came from, as far as the socket tells."""
    return request.client.host if request.client else ""


class HumanIdentity(Protocol):
    """Who the person behind a request is. None: this way tells nothing."""

    async def identify(self, request: HTTPConnection, *, writes: bool) -> Grant | None:
        """Raises Unauthorized when a credential came but does not suffice."""
        ...


class CookieIdentity:
    """People known by an HttpOnly cookie; the database has its digest only."""

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    async def identify(self, request: HTTPConnection, *, writes: bool) -> Grant | None:
        cookie = request.cookies.get(COOKIE)
        if not cookie:
            return None
        person = await self._commits.read(lambda tx: person_of_cookie(tx, cookie))
        if person is None:
            return None
        if writes:
            secret = request.headers.get(SECRET_HEADER, "")
            if person.secret_digest is None or not hmac.compare_digest(
                digest_of(secret), person.secret_digest
            ):
                raise Unauthorized("a write needs the header secret besides the cookie")
        return person.grant


class TrustedHeaderIdentity:
    """People named by the proxy in front, which must set or remove the header on every request."""

    def __init__(self, commits: Commits, header: str) -> None:
        self._commits = commits
        self._header = header

    async def identify(self, request: HTTPConnection, *, writes: bool) -> Grant | None:  # noqa: ARG002
        named = request.headers.getlist(self._header)
        if not named or not named[0]:
            return None
        if len(named) > 1:
            raise Unauthorized("the trusted header names several people")
        try:
            grant = person_grant(Actor(USER, named[0]).key)
        except InvalidRequest as error:
            raise Unauthorized("the trusted header names nobody") from error
        known = await self._commits.read(lambda tx: people.get(tx, grant.pattern.key))
        if is_pattern(grant.pattern) or (known is not None and known.removed_at is not None):
            raise Unauthorized("the trusted header names nobody who is let in")
        return grant


class Identity:
    """Grants by credential. Tokens are remembered until one is revoked."""

    def __init__(self, commits: Commits, human: HumanIdentity, admin_token: str, rates: RateLimits) -> None:
        self._commits = commits
        self._human = human
        self.rates = rates
        self._standing: dict[str, Grant] = {admin_token: admin_grant()}
        self._tokens: dict[str, Grant] = {}
        self._revoked: set[str] = set()

    def add_standing(self, secret: str, grant: Grant) -> None:
        """A credential that lives as long as this process, for parts that live in it."""
        self._standing[secret] = grant

    def revoke(self, token_id: str) -> None:
        """After the revocation was committed. What was read before it and arrives later counts no more."""
        self._revoked.add(token_id)
        self._tokens.clear()

    def require_valid(self, grant: Grant) -> None:
        """For work that outlasts its request's beginning. Raises Unauthorized when the token was revoked."""
        if grant.token_id in self._revoked:
            raise Unauthorized("the token is not valid any more")

    async def of_request(self, request: HTTPConnection, verb: Verb) -> Grant:
        """The grant of a request, which must have `verb`. Raises Unauthorized, Forbidden, rate_limited."""
        try:
            grant = await self._presented(request)
        except Unauthorized:
            self.rates.take_stranger(address_of(request))
            raise
        request.scope.setdefault("state", {})["grant"] = grant
        self.rates.take(grant)
        grant.require(verb)
        return grant

    async def _presented(self, request: HTTPConnection) -> Grant:
        """The grant of the credential that came. Raises Unauthorized."""
        header = request.headers.get("authorization")
        if header is not None:
            scheme, _, token = header.partition(" ")
            if scheme.lower() != "bearer" or not token:
                raise Unauthorized("the Authorization header is not Bearer <token>")
            return await self.of_token(token.strip())
        method = request.scope.get("method", "GET")
        found = await self._human.identify(request, writes=method not in SAFE_METHODS)
        if found is None:
            raise Unauthorized("no valid credential came with the request")
        return found

    async def of_token(self, token: str) -> Grant:
        """Raises Unauthorized."""
        grant = self._standing.get(token) or self._tokens.get(token)
        if grant is not None:
            return grant
        try:
            stored = await self._commits.read(lambda tx: grant_of_token(tx, token))
        except UnicodeEncodeError as error:
            raise Unauthorized("this is not a token") from error
        if stored is None:
            raise Unauthorized("the token is not valid (any more)")
        self.require_valid(stored)
        if len(self._tokens) >= MAX_CACHED_TOKENS:
            self._tokens.clear()
        self._tokens[token] = stored
        return stored
