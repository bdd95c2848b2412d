"""What a resource is, and what one may become: pure rules, the same in every store (spec/protocol.md §9).

A resource is `{apiVersion, kind, metadata, spec, status}`, camelCase inside, as Kubernetes wants. Here is
decided which fields are whose, when the generation grows, and what a deletion waits for; stores only keep
the outcome.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import Conflict, InvalidRequest, LimitExceeded

Resource = dict[str, Any]

DEFAULT_NAMESPACE = "default"
MAX_BYTES = 1 << 20

_NAME = re.compile(r"[a-z0-9]([-a-z0-9_.]{0,251}[a-z0-9])?\Z")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}\Z")
_WRITABLE_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


class ResourceKey(NamedTuple):
    """What names a resource: unique in a store while it lives."""

    kind: str
    namespace: str
    name: str


def key_of(resource: Mapping[str, Any]) -> ResourceKey:
    """The key; the namespace defaults to `default`. Raises InvalidRequest (`invalid_resource`)."""
    metadata = resource.get("metadata")
    if not isinstance(metadata, dict):
        raise invalid("a resource has metadata", "/metadata")
    kind, name = resource.get("kind"), metadata.get("name")
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    if not isinstance(kind, str) or not _KIND.match(kind):
        raise invalid("kind is a capitalised word", "/kind")
    if not isinstance(name, str) or not _NAME.match(name):
        raise invalid(
            "name is 1 to 253 of a-z 0-9 - _ . and starts and ends with a letter or digit", "/metadata/name"
        )
    if not isinstance(namespace, str) or not _NAME.match(namespace):
        raise invalid("namespace follows the rule of names", "/metadata/namespace")
    return ResourceKey(kind, namespace, name)


def version_of(resource: Mapping[str, Any]) -> str:
    """The resourceVersion, an opaque text."""
    return str(resource["metadata"]["resourceVersion"])


def uid_of(resource: Mapping[str, Any]) -> str:
    return str(resource["metadata"]["uid"])


def labels_of(resource: Mapping[str, Any]) -> dict[str, str]:
    return resource["metadata"].get("labels") or {}


def is_deleting(resource: Mapping[str, Any]) -> bool:
    """Whether it only waits for its finalizers."""
    return "deletionTimestamp" in resource["metadata"]


def selects(selector: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """Whether every label of the selector is there with that value; no selector takes everything."""
    return not selector or all(labels.get(name) == value for name, value in selector.items())


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, `null` removes, everything else replaces. Neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    merged: dict[str, Any] = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged


def decide_create(resource: Mapping[str, Any], *, uid: str, created_at: str) -> Resource:
    """The first state: generation 1, and nothing in metadata that only a store may say.

    Raises InvalidRequest (`invalid_resource`).
    """
    key = key_of(resource)
    metadata: dict[str, Any] = {"name": key.name, "namespace": key.namespace, "uid": uid}
    metadata.update(_own_metadata(resource["metadata"]))
    metadata.update({"generation": 1, "creationTimestamp": created_at})
    return _checked(
        {
            "apiVersion": resource.get("apiVersion") or "v1",
            "kind": key.kind,
            "metadata": metadata,
            "spec": _object(resource, "spec"),
            "status": _object(resource, "status"),
        }
    )


def decide_patch(resource: Resource, patch: Mapping[str, Any]) -> Resource:
    """Merge labels, annotations, finalizers, owners and spec; status and the store's own fields are not
    touched.

    The generation grows when the spec changes and only then. Raises InvalidRequest (`invalid_resource`)
    when the patch names another resource, or adds a finalizer to one that is being deleted.
    """
    changes = _object(patch, "metadata")
    for name in ("name", "namespace", "uid"):
        if name in changes and changes[name] != resource["metadata"][name]:
            raise invalid(f"metadata.{name} never changes", f"/metadata/{name}")
    writable = {name: changes[name] for name in _WRITABLE_METADATA if name in changes}
    metadata = merge_patch(resource["metadata"], writable)
    spec = merge_patch(resource["spec"], patch.get("spec") or {})
    if is_deleting(resource) and set(metadata.get("finalizers") or ()) - set(
        resource["metadata"].get("finalizers") or ()
    ):
        raise invalid("a resource that is being deleted takes no new finalizer", "/metadata/finalizers")
    if spec != resource["spec"]:
        metadata["generation"] += 1
    return _checked({**resource, "metadata": metadata, "spec": spec})


def decide_status(resource: Resource, status: Mapping[str, Any]) -> Resource:
    """Merge into status alone; the generation stays."""
    return _checked({**resource, "status": merge_patch(resource["status"], status)})


def decide_replace(resource: Resource, desired: Mapping[str, Any]) -> Resource:
    """Spec, status and given metadata as a whole: for the one writer that computes them from elsewhere."""
    metadata = {**resource["metadata"], **_own_metadata(desired["metadata"])}
    spec, status = _object(desired, "spec"), _object(desired, "status")
    if spec != resource["spec"]:
        metadata["generation"] += 1
    return _checked({**resource, "metadata": metadata, "spec": spec, "status": status})


def decide_delete(resource: Resource, *, deleted_at: str) -> Resource | None:
    """None when it goes at once; with finalizers the resource that waits for them."""
    if not resource["metadata"].get("finalizers"):
        return None
    if is_deleting(resource):
        return resource
    return {**resource, "metadata": {**resource["metadata"], "deletionTimestamp": deleted_at}}


def is_gone(resource: Resource) -> bool:
    """Whether a deletion has nothing left to wait for."""
    return is_deleting(resource) and not resource["metadata"].get("finalizers")


def owner_uids(resource: Mapping[str, Any]) -> list[str]:
    return [owner["uid"] for owner in resource["metadata"].get("ownerReferences") or ()]


def without_owner(resource: Resource, uid: str) -> Resource:
    """The resource after one of its owners has gone."""
    owners = [one for one in resource["metadata"].get("ownerReferences") or () if one["uid"] != uid]
    return {**resource, "metadata": {**resource["metadata"], "ownerReferences": owners}}


def check_version(resource: Resource, expected: str | None) -> None:
    """Raises Conflict (`resource_conflict`) when `expected` is given and the resource has moved on."""
    if expected is not None and expected != version_of(resource):
        raise Conflict(
            "the resource has changed since it was read",
            code=ErrorCode.RESOURCE_CONFLICT,
            detail={"resource_version": version_of(resource)},
        )


def check_size(body: str) -> None:
    """Raises LimitExceeded: a resource is state to act on, not a place for content."""
    if len(body) > MAX_BYTES or len(body.encode()) > MAX_BYTES:
        raise LimitExceeded(
            "a resource has at most 1 MiB", detail={"limit": "resource_bytes", "max": MAX_BYTES}
        )


def invalid(message: str, pointer: str) -> InvalidRequest:
    return InvalidRequest(message, code=ErrorCode.INVALID_RESOURCE, pointer=pointer)


def _own_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: metadata[name] for name in _WRITABLE_METADATA if metadata.get(name)}


def _object(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(f"{name} is an object", f"/{name}")
    return value


def _checked(resource: Resource) -> Resource:
    metadata = resource["metadata"]
    for name in ("labels", "annotations"):
        if not _is_text_map(metadata.get(name, {})):
            raise invalid(f"{name} are texts by name", f"/metadata/{name}")
    finalizers = metadata.get("finalizers", [])
    if not isinstance(finalizers, list) or not all(isinstance(one, str) and one for one in finalizers):
        raise invalid("finalizers are texts", "/metadata/finalizers")
    owners = metadata.get("ownerReferences", [])
    if not isinstance(owners, list) or not all(_is_owner(one) for one in owners):
        raise invalid("an owner reference names kind, name and uid", "/metadata/ownerReferences")
    return resource


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(text, str) for name, text in value.items()
    )


def _is_owner(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), str) for name in ("kind", "name", "uid")
    )
