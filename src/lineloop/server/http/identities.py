"""Routes of identities: tokens and registered actors."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.clock import rfc3339
from lineloop.protocol.actors import RUNTIME
from lineloop.protocol.errors import ErrorCode
from lineloop.protocol.requests import ActorBody, TokenBody, parse_body
from lineloop.server.commit.accounts import CreateToken, create_token_in, revoke_token_in
from lineloop.server.decide.access import Verb, decide_token
from lineloop.server.http.bodies import raw_body
from lineloop.server.http.documents import (
    ActorList,
    RegisteredActor,
    TokenDocument,
    TokenList,
    document,
)
from lineloop.server.http.lists import PageQuery, json_response, page_response
from lineloop.server.http.participants import actor_of_path
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.store import identities
from lineloop.server.store.identities import ActorRow, TokenRow


def identity_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["identities"])
    commits, ids = services.commits, services.ids

    @router.post("/tokens", openapi_extra=document(TokenDocument, body=TokenBody, statuses=(201,)))
    async def create_token(request: Request) -> Response:
        """The token is shown once; only its digest is kept."""
        grant = await services.grant(request, Verb.ADMIN)
        body = parse_body(TokenBody, await raw_body(request))
        command = CreateToken(
            token_id=ids.make("tok"),
            secret=f"llt_{ids.secret()}",
            pattern=body.actor,
            verbs=decide_token(grant, body.verbs),
            owner_user=grant.owner_user,
        )
        await commits.write(lambda tx: create_token_in(tx, commits.ctx, command))
        answer = {"id": command.token_id, "token": command.secret, "actor": command.pattern.to_wire()}
        return json_response(answer, 201)

    @router.get("/tokens", openapi_extra=document(TokenList), query=PageQuery)
    async def list_tokens(request: Request, query: PageQuery) -> Response:
        after, limit = query.after, query.limit
        await services.grant(request, Verb.ADMIN)
        found = await commits.read(lambda tx: identities.tokens(tx, after=after, limit=limit + 1))
        items = [json.dumps(_token_line(token)) for token in found[:limit]]
        return page_response(items, found[limit - 1].id if len(found) > limit else None)

    @router.delete(
        "/tokens/{token_id}", openapi_extra=document(None, statuses=(204,), errors=(ErrorCode.NOT_FOUND,))
    )
    async def revoke_token(request: Request, token_id: str) -> Response:
        await services.grant(request, Verb.ADMIN)
        await commits.write(lambda tx: revoke_token_in(tx, commits.ctx, token_id))
        services.end_of_token(token_id)
        return Response(status_code=204)

    @router.put("/actors/{kind:path}/{key}", openapi_extra=document(RegisteredActor, body=ActorBody))
    async def register(request: Request, kind: str, key: str) -> Response:
        """Lists the actor as live until its lease ends; renew it by the same call."""
        grant = await services.grant(request, Verb.REGISTER)
        actor = grant.actor(actor_of_path(request, kind, key))
        body = parse_body(ActorBody, await raw_body(request))
        row = await commits.register(
            actor,
            display_name=body.display_name,
            description=body.description or "",
            lease_ms=body.lease_ms,
        )
        if actor.kind == RUNTIME:
            await commits.activate_device(grant.owner_user, actor.key)
        return json_response(_actor_line(row))

    @router.get("/actors", openapi_extra=document(ActorList), query=PageQuery)
    async def list_actors(request: Request, query: PageQuery) -> Response:
        """The live ones."""
        after, limit = query.after, query.limit
        await services.grant(request, Verb.READ)
        now = services.clock.now_ms()
        found = await commits.read(
            lambda tx: identities.live_actors(tx, now=now, after=after, limit=limit + 1)
        )
        items = [json.dumps(_actor_line(row)) for row in found[:limit]]
        last = found[limit - 1] if len(found) > limit else None
        return page_response(items, f"{last.kind}/{last.key}" if last else None)

    return router


def _token_line(token: TokenRow) -> dict[str, object]:
    return {
        "id": token.id,
        "actor": token.pattern.to_wire() if token.pattern is not None else None,
        "verbs": token.verbs,
        "created_at": rfc3339(token.created_at),
    }


def _actor_line(row: ActorRow) -> dict[str, object]:
    return {
        "kind": row.kind,
        "key": row.key,
        "display_name": row.display_name,
        "description": row.description,
        "lease_until": rfc3339(row.lease_until),
    }
