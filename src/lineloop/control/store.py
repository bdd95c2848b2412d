"""What every resource store can do, whatever keeps the resources (spec/protocol.md §9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from enum import StrEnum
from typing import Any, Protocol

from lineloop.control.resources import DEFAULT_NAMESPACE, Resource
from lineloop.kit.records import record

Labels = Mapping[str, str]


class WatchType(StrEnum):
    """What a watch tells; as seen through its own selector and from its own start."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@record
class WatchEvent:
    """One line of a watch. A bookmark's resource has a kind and a resourceVersion only."""

    type: WatchType
    resource: Resource


@record
class ResourceList:
    """A consistent list, and the version from which a watch continues it without a gap."""

    items: list[Resource]
    resource_version: str


class ResourceStore(Protocol):
    """Resources by kind, namespace and name.

    Coded errors of every method: `resource_not_found`, `resource_conflict` (exists already, or a
    `resource_version` that is not the current one), `invalid_resource`, `resource_expired`,
    `storage_unavailable`. Namespace None means all. What is returned belongs to the caller.
    """

    async def get(self, kind: str, name: str, *, namespace: str = DEFAULT_NAMESPACE) -> Resource: ...

    async def list(
        self, kind: str, *, namespace: str | None = None, labels: Labels | None = None
    ) -> ResourceList: ...

    async def create(self, resource: Resource) -> Resource: ...

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> Resource:
        """JSON merge patch over metadata (labels, annotations, finalizers, owners) and spec."""
        ...

    async def patch_status(
        self,
        kind: str,
        name: str,
        status: Mapping[str, Any],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> Resource:
        """JSON merge patch over the status alone; `status` is the patch of the status object."""
        ...

    async def delete(
        self,
        kind: str,
        name: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        resource_version: str | None = None,
    ) -> None:
        """Delete, or mark as deleting while there are finalizers. What it alone owns goes with it."""
        ...

    def watch(
        self,
        kind: str,
        *,
        resource_version: str,
        namespace: str | None = None,
        labels: Labels | None = None,
    ) -> AsyncIterator[WatchEvent]:
        """Changes after `resource_version`, in order, without end; states in between may be left out.

        Bookmarks come also when nothing changes. Raises `resource_expired` when the log no longer reaches
        back. Close the iterator (`contextlib.aclosing`) when leaving early.
        """
        ...
