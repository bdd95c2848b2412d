"""Routes of resources: one Conversation as it truly stands, and the read-only Kubernetes-shaped view.

Decides how the store's resources look to `kubectl` and to operators elsewhere, and which of them a credential
may see: its own participations, everything for an admin. Nothing is written here: the server alone writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from lineloop.control.resources import Resource
from lineloop.control.store import WatchType
from lineloop.control.stores.sql import SqlStore
from lineloop.kit import json
from lineloop.kit.clock import Clock, with_timeout
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ErrorCode, LoopError, NotFound
from lineloop.protocol.resources import API_VERSION, CONVERSATION_KIND, CONVERSATIONS, GROUP, VERSION
from lineloop.server.commit.participation import conversation_not_found
from lineloop.server.decide.access import Grant, Verb
from lineloop.server.http.documents import document
from lineloop.server.http.lists import Query, json_response
from lineloop.server.http.resource_tables import is_table_wanted, table_of
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.http.statuses import status_of
from lineloop.server.upkeep.notifier import read_resource
from lineloop.server.wakeup.bus import Hint, Stopping

MAX_WATCH_SECONDS = 24 * 3600
_ROOT = f"/apis/{API_VERSION}"
_DISCOVERY: dict[str, Any] = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": API_VERSION,
    "resources": [
        {
            "name": CONVERSATIONS,
            "singularName": "conversation",
            "namespaced": True,
            "kind": CONVERSATION_KIND,
            "verbs": ["get", "list", "watch"],
            "shortNames": ["conv"],
        }
    ],
}
_SELECTOR: dict[str, JsonValue] = {"pattern": "^([^,=]*[^,=!]=[^,]*(,[^,=]*[^,=!]=[^,]*)*)?$"}
_GROUP_VERSION = {"groupVersion": API_VERSION, "version": VERSION}
_GROUP: dict[str, Any] = {
    "kind": "APIGroup",
    "apiVersion": "v1",
    "name": GROUP,
    "versions": [_GROUP_VERSION],
    "preferredVersion": _GROUP_VERSION,
}


class ViewQuery(Query):
    """As Kubernetes has it, parameters that mean nothing here are passed over: clients send many."""

    model_config = ConfigDict(extra="ignore", defer_build=True)


class ListQuery(ViewQuery):
    """The parameters of Kubernetes, by its names. Raises InvalidRequest for a version that is none."""

    selector: Annotated[
        str | None, Field(alias="labelSelector", max_length=1000, json_schema_extra=_SELECTOR)
    ] = None
    watch: bool = False
    version: Annotated[str, Field(alias="resourceVersion", max_length=20, pattern="^[0-9]*$")] = ""
    timeout_seconds: Annotated[int, Field(alias="timeoutSeconds", ge=0, le=MAX_WATCH_SECONDS)] = 0


def resource_routes(services: Services, store: SqlStore) -> Routes:
    router = Routes(tags=["resources"])
    _discovery_routes(router, services)
    _conversation_routes(router, services, store)

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


_LIST_ERRORS = (ErrorCode.INVALID_REQUEST, ErrorCode.RESOURCE_EXPIRED)


def _discovery_routes(router: Routes, services: Services) -> None:
    @router.get("/api", openapi_extra=document(None), query=ViewQuery)
    async def core_versions(request: Request, query: ViewQuery) -> Response:  # noqa: ARG001
        """There are no core resources here; `kubectl` asks."""
        await services.grant(request, Verb.READ)
        return json_response({"kind": "APIVersions", "versions": []})

    @router.get("/apis", openapi_extra=document(None), query=ViewQuery)
    async def groups(request: Request, query: ViewQuery) -> Response:  # noqa: ARG001
        await services.grant(request, Verb.READ)
        return json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]})

    @router.get(f"/apis/{GROUP}", openapi_extra=document(None), query=ViewQuery)
    async def group(request: Request, query: ViewQuery) -> Response:  # noqa: ARG001
        await services.grant(request, Verb.READ)
        return json_response(_GROUP)

    @router.get(_ROOT, openapi_extra=document(None), query=ViewQuery)
    async def discovery(request: Request, query: ViewQuery) -> Response:  # noqa: ARG001
        await services.grant(request, Verb.READ)
        return json_response(_DISCOVERY)


def _conversation_routes(router: Routes, services: Services, store: SqlStore) -> None:
    async def listed(request: Request, namespace: str | None, query: ListQuery) -> Response:
        grant = await services.grant(request, Verb.READ)
        labels = _labels(query.selector)
        table = is_table_wanted(request.headers.get("accept", ""))
        if query.watch:
            lines = _watch_lines(store, grant, namespace, labels, query.version, table=table)
            if query.timeout_seconds:
                lines = _for_a_while(services.clock, lines, query.timeout_seconds)
            return services.streamed(grant, _until_stopping(services, lines), media_type="application/json")
        found = await store.list(CONVERSATION_KIND, namespace=namespace, labels=labels)
        items = [item for item in found.items if may_see(grant, item)]
        metadata = {"resourceVersion": found.resource_version}
        if table:
            return json_response(table_of(items, metadata))
        return json_response(
            {
                "kind": f"{CONVERSATION_KIND}List",
                "apiVersion": API_VERSION,
                "metadata": metadata,
                "items": items,
            }
        )

    @router.get(
        f"{_ROOT}/{CONVERSATIONS}", openapi_extra=document(None, errors=_LIST_ERRORS), query=ListQuery
    )
    async def list_everywhere(request: Request, query: ListQuery) -> Response:
        """A list, or with `watch=true` one JSON event per line."""
        return await listed(request, None, query)

    @router.get(
        f"{_ROOT}/namespaces/{{namespace}}/{CONVERSATIONS}",
        openapi_extra=document(None, errors=_LIST_ERRORS),
        query=ListQuery,
    )
    async def list_in_namespace(request: Request, namespace: str, query: ListQuery) -> Response:
        return await listed(request, namespace, query)

    @router.get(
        f"{_ROOT}/namespaces/{{namespace}}/{CONVERSATIONS}/{{name}}",
        openapi_extra=document(None, errors=(ErrorCode.RESOURCE_NOT_FOUND,)),
        query=ViewQuery,
    )
    async def get_one(
        request: Request,
        namespace: str,
        name: str,
        query: ViewQuery,  # noqa: ARG001
    ) -> Response:
        grant = await services.grant(request, Verb.READ)
        resource = await store.get(CONVERSATION_KIND, name, namespace=namespace)
        if not may_see(grant, resource):
            raise NotFound(f"there is no {CONVERSATION_KIND} {name}", code=ErrorCode.RESOURCE_NOT_FOUND)
        if is_table_wanted(request.headers.get("accept", "")):
            return json_response(table_of([resource], {}))
        return json_response(resource)


def may_see(grant: Grant, resource: Mapping[str, Any]) -> bool:
    """Whether somebody takes part for whom the credential stands."""
    if grant.is_admin:
        return True
    participants: list[dict[str, Any]] = resource.get("spec", {}).get("participants", [])
    return any(grant.sees_as(Actor(one["kind"], one["key"])) for one in participants)


async def _watch_lines(
    store: SqlStore,
    grant: Grant,
    namespace: str | None,
    labels: dict[str, str] | None,
    version: str,
    *,
    table: bool,
) -> AsyncGenerator[str]:
    """Changes after `version`, or from now on; a failed watch ends with an ERROR line."""
    try:
        if version in ("", "0"):
            listed = await store.list(CONVERSATION_KIND, namespace=namespace, labels=labels)
            version = listed.resource_version
            for item in listed.items:
                if may_see(grant, item):
                    yield _line(WatchType.ADDED, item, table=table)
        async for event in store.watch(
            CONVERSATION_KIND, resource_version=version, namespace=namespace, labels=labels
        ):
            if event.type is WatchType.BOOKMARK:
                yield _line(event.type, {"apiVersion": API_VERSION, **event.resource}, table=False)
            elif may_see(grant, event.resource):
                yield _line(event.type, event.resource, table=table)
    except LoopError as error:
        yield json.dumps({"type": "ERROR", "object": status_of(error)}) + "\n"


async def _until_stopping(services: Services, lines: AsyncGenerator[str]) -> AsyncGenerator[str]:
    """The lines until the server stops; then the watch ends as if there were no more, and is opened again."""
    stopping = asyncio.Event()

    def hear(hint: Hint) -> None:
        if isinstance(hint, Stopping):
            stopping.set()

    stop = services.bus.listen_all(hear)
    try:
        async with Tasks("watch") as tasks:
            stopped = tasks.spawn(stopping.wait(), name="stopping")
            while services.ready:
                line = tasks.spawn(_next(lines), name="line")
                await asyncio.wait((stopped, line), return_when=asyncio.FIRST_COMPLETED)
                if not line.done() or (text := line.result()) is None:
                    return
                yield text
    finally:
        stop()
        await lines.aclose()


async def _next(lines: AsyncGenerator[str]) -> str | None:
    return await anext(lines, None)


async def _for_a_while(clock: Clock, lines: AsyncGenerator[str], seconds: float) -> AsyncGenerator[str]:
    """The lines that come within this time; then the watch ends as if there were no more."""
    until = clock.monotonic() + seconds
    try:
        while (left := until - clock.monotonic()) > 0:
            yield await with_timeout(clock, left, anext(lines))
    except (TimeoutError, StopAsyncIteration):
        return
    finally:
        await lines.aclose()


def _line(kind: WatchType, resource: Resource, *, table: bool) -> str:
    shown = table_of([resource], {}) if table else resource
    return json.dumps({"type": kind.value, "object": shown}) + "\n"


def _labels(selector: str | None) -> dict[str, str] | None:
    """Equality selectors only. Raises invalid_resource for others."""
    if not selector:
        return None
    labels: dict[str, str] = {}
    for part in selector.split(","):
        name, equals, value = part.partition("=")
        if not equals or not name or name.endswith("!"):
            raise LoopError("only name=value selectors are known", code=ErrorCode.INVALID_RESOURCE)
        labels[name] = value.removeprefix("=")
    return labels
