"""Routes of people: who an administrator made and removes, and a person's session."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.protocol.errors import ErrorCode, Forbidden, Unauthorized
from lineloop.protocol.requests import SessionBody, UserBody, parse_body
from lineloop.server.commit.accounts import create_person_in
from lineloop.server.commit.people import invite_person_in, remove_person_in, sign_in_in
from lineloop.server.decide.access import Verb, person_grant
from lineloop.server.http.bodies import raw_body
from lineloop.server.http.documents import InvitedDocument, SessionDocument, UserList, document
from lineloop.server.http.identity import COOKIE, address_of
from lineloop.server.http.lists import PageQuery, json_response, page_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.store import people
from lineloop.server.store.people import Person

PEOPLE = "server.people"
COOKIE_SECONDS = 400 * 24 * 3600


def people_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["people"])
    _administer(router, services)
    _sessions(router, services)
    return router


def _administer(router: Routes, services: Services) -> None:
    commits, ids = services.commits, services.ids

    @router.post("/users", openapi_extra=document(InvitedDocument, body=UserBody, statuses=(200, 201)))
    async def invite_person(request: Request) -> Response:
        """A person, and a code that lets them in once; it is shown once. 200 when the person exists."""
        await services.grant(request, Verb.ADMIN)
        body = parse_body(UserBody, await raw_body(request, needed=False))
        key, code = body.key or ids.make("usr"), f"lli_{ids.secret()}"
        person, is_new = await commits.write(lambda tx: invite_person_in(tx, commits.ctx, key, code), PEOPLE)
        return _unstored(json_response({**_line(person), "code": code}, 201 if is_new else 200))

    @router.get("/users", openapi_extra=document(UserList), query=PageQuery)
    async def list_people(request: Request, query: PageQuery) -> Response:
        """Everybody who is not removed, by key."""
        after, limit = query.after, query.limit
        await services.grant(request, Verb.ADMIN)
        found = await commits.read(lambda tx: people.page(tx, after=after, limit=limit + 1))
        items = [json.dumps(_line(person)) for person in found[:limit]]
        return page_response(items, found[limit - 1].key if len(found) > limit else None)

    @router.delete(
        "/users/{key}",
        openapi_extra=document(
            None, statuses=(204,), errors=(ErrorCode.NOT_FOUND, ErrorCode.INVALID_REQUEST)
        ),
    )
    async def remove_person(request: Request, key: str) -> Response:
        """Ends the person's cookie, invitation, tokens and streams. What they said stays."""
        await services.grant(request, Verb.ADMIN)
        tokens = await commits.write(lambda tx: remove_person_in(tx, commits.ctx, key), PEOPLE)
        for token_id in tokens:
            services.end_of_token(token_id)
        services.end_of_person(key)
        return Response(status_code=204)


def _sessions(router: Routes, services: Services) -> None:
    commits, ids = services.commits, services.ids

    @router.get("/session", openapi_extra=document(SessionDocument))
    async def session(request: Request) -> Response:
        """Who the person is; where sessions are open, a stranger becomes a new person with a cookie."""
        try:
            grant = await services.grant(request, Verb.READ)
        except Unauthorized:
            if not services.settings.open_sessions or "authorization" in request.headers:
                raise
        else:
            return json_response({"user": grant.actor().to_wire(), "secret": None})
        key, cookie, secret = ids.make("usr"), ids.secret(), ids.secret()
        await commits.write(lambda tx: create_person_in(tx, commits.ctx, key, cookie, secret), PEOPLE)
        return _let_in(services, key, cookie, secret)

    @router.post(
        "/session",
        openapi_extra=document(SessionDocument, body=SessionBody, errors=(ErrorCode.UNAUTHORIZED,)),
    )
    async def sign_in(request: Request) -> Response:
        """The person who was invited with the code, in this browser from now on and in no other."""
        if services.settings.trusted_user_header:
            raise Forbidden("the host's own proxy tells who people are")
        body = parse_body(SessionBody, await raw_body(request))
        cookie, secret = ids.secret(), ids.secret()
        try:
            key = await commits.write(
                lambda tx: sign_in_in(tx, commits.ctx, body.code, cookie, secret), PEOPLE
            )
        except Unauthorized:
            services.identity.rates.take_stranger(address_of(request))
            raise
        services.end_of_person(key)
        return _let_in(services, key, cookie, secret)


def _let_in(services: Services, key: str, cookie: str, secret: str) -> Response:
    response = json_response({"user": person_grant(key).pattern.to_wire(), "secret": secret})
    response.set_cookie(
        COOKIE,
        cookie,
        max_age=COOKIE_SECONDS,
        path="/",
        secure=services.settings.secure_cookies,
        httponly=True,
        samesite="strict",
    )
    return _unstored(response)


def _unstored(response: Response) -> Response:
    """What lets somebody in is kept by nobody on its way."""
    response.headers["cache-control"] = "no-store"
    return response


def _line(person: Person) -> dict[str, object]:
    until = person.invited_until
    return {
        "key": person.key,
        "created_at": rfc3339(person.created_at),
        "signed_in": person.signed_in,
        "invited_until": rfc3339(until) if until is not None else None,
    }
