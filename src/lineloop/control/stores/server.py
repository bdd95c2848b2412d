"""The resources of a Lineloop server, read over its Kubernetes-shaped view.

Read-only: the server alone writes Conversations. Decides how paths, lists and watch lines become resources
and events; leaves reconnecting and relisting to the informer, and the connection to whoever reads the paths
(spec/protocol.md §9).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Protocol

from lineloop.control.resources import DEFAULT_NAMESPACE, Resource
from lineloop.control.store import Labels, ResourceList, WatchEvent, WatchType
from lineloop.kit import json
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import ConnectionLost, LoopError, NotFound
from lineloop.protocol.paths import segment
from lineloop.protocol.resources import API_VERSION, CONVERSATION_KIND, CONVERSATIONS

_ROOT = f"/apis/{API_VERSION}"
_PLURALS = {CONVERSATION_KIND: CONVERSATIONS}
_GONE = 410


class ApisReader(Protocol):
    """Something that reads `/apis/…`; `Loop.apis` fits."""

    async def document(
        self, path: str, params: Mapping[str, str | int | bool | None] | None = None
    ) -> dict[str, Any]:
        """One JSON document. Raises LoopError."""
        ...

    def lines(
        self, path: str, params: Mapping[str, str | int | bool | None] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """One JSON document per line. Raises LoopError; a break is ConnectionLost."""
        ...


class ServerStore:
    """A ResourceStore over a server's `/apis`. Its writing methods raise `method_not_allowed`."""

    def __init__(self, apis: ApisReader) -> None:
        self._apis = apis

    async def get(self, kind: str, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> Resource:
        """Raises NotFound (`resource_not_found`)."""
        try:
            return _whole(kind, await self._apis.document(f"{_path(kind, namespace)}/{segment(name)}"))
        except NotFound as error:
            raise NotFound(f"there is no {kind} {name}", code=ErrorCode.RESOURCE_NOT_FOUND) from error

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Labels | None = None
    ) -> ResourceList:
        """Everything of the kind that the token may see. Raises `resource_expired` between two pages."""
        items: list[Resource] = []
        following: str | None = None
        while True:
            params = {"labelSelector": _selector(labels), "continue": following}
            page = await self._apis.document(_path(kind, namespace), params)
            items += [_whole(kind, item) for item in page.get("items") or ()]
            metadata: Mapping[str, Any] = page.get("metadata") or {}
            following = metadata.get("continue") or None
            if following is None:
                return ResourceList(items, str(metadata.get("resourceVersion", "0")))

    async def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        namespace: str | None = None,
        labels: Labels | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes after `resource_version`; a stream that ends raises ConnectionLost, so nobody takes silence
        for peace. Raises `resource_expired` when the version is no longer kept.
        """
        params = {
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": resource_version,
            "labelSelector": _selector(labels),
        }
        async with self._apis.lines(_path(kind, namespace), params) as lines:
            async for line in lines:
                if line.strip():
                    yield _event(kind, line)
        raise ConnectionLost("the watch ended")

    async def create(self, resource: Resource) -> Resource:
        del resource
        _refuse()

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> Resource:
        del kind, name, patch, namespace, resource_version
        _refuse()

    async def patch_status(
        self,
        kind: str,
        name: str,
        status: Mapping[str, Any],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> Resource:
        del kind, name, status, namespace, resource_version
        _refuse()

    async def delete(
        self,
        kind: str,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> None:
        del kind, name, namespace, resource_version
        _refuse()


def _path(kind: str, namespace: str | None) -> str:
    plural = _PLURALS.get(kind)
    if plural is None:
        raise NotFound(f"the server has no kind {kind}", code=ErrorCode.RESOURCE_NOT_FOUND)
    return f"{_ROOT}/{plural}" if namespace is None else f"{_ROOT}/namespaces/{segment(namespace)}/{plural}"


def _selector(labels: Labels | None) -> str | None:
    return ",".join(f"{name}={value}" for name, value in labels.items()) if labels else None


def _whole(kind: str, item: Mapping[str, Any]) -> Resource:
    """Items of a list may leave out what the list says for all of them."""
    return {"apiVersion": API_VERSION, "kind": kind, "spec": {}, "status": {}, **item}


def _event(kind: str, line: str) -> WatchEvent:
    try:
        told: Any = json.loads(line)
        type_, item = told["type"], told["object"]
        if type_ == "ERROR":
            _raise_status(item)
        return WatchEvent(WatchType(type_), _whole(kind, item))
    except (ValueError, KeyError, TypeError) as error:
        raise ConnectionLost(f"the watch sent something that is no event: {error}") from error


def _raise_status(status: Mapping[str, Any]) -> NoReturn:
    message = str(status.get("message") or "the watch failed")
    if status.get("code") == _GONE:
        raise LoopError(message, code=ErrorCode.RESOURCE_EXPIRED)
    raise ConnectionLost(message)


def _refuse() -> NoReturn:
    raise LoopError("the server alone writes its resources", code=ErrorCode.METHOD_NOT_ALLOWED)
