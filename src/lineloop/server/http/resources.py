"""Routes of resources: one Conversation as it truly stands, and the read-only Kubernetes-shaped view.

Decides how the store's resources look to `kubectl`. Writing is not possible here: the server alone writes.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from lineloop.control.stores.sql import SqlStore
from lineloop.protocol.errors import ErrorCode
from lineloop.server.commit.participation import conversation_not_found
from lineloop.server.decide.access import Verb
from lineloop.server.http.documents import document
from lineloop.server.http.lists import json_response
from lineloop.server.http.services import Services
from lineloop.server.upkeep.notifier import read_resource


def resource_routes(services: Services, store: SqlStore) -> APIRouter:
    router = APIRouter(tags=["resources"])

    @router.get(
        "/v1/conversations/{conversation_id}/resource",
        openapi_extra=document(None, errors=(ErrorCode.CONVERSATION_NOT_FOUND,)),
    )
    async def conversation_resource(request: Request, conversation_id: str) -> Response:
        """Computed from the truth, not from the store."""
        grant = await services.grant(request, Verb.READ)
        await services.visible_conversation(grant, conversation_id)
        resource = await services.commits.read(lambda tx: read_resource(tx, conversation_id))
        if resource is None:
            raise conversation_not_found(conversation_id)
        return json_response(resource)

    return router
