"""Tables of the SQL store and the statements on them; sync functions that take a Tx.

The watch log holds which resource changed at which version, not its body: a watch reads the present state, so
that a resource that changes often is written, and told, once. Only a deletion keeps the last body.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from lineloop.control.resources import Resource, ResourceKey, check_size, labels_of, owner_uids, uid_of
from lineloop.kit.database import Tx
from lineloop.kit.json import dumps, loads
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

DDL: tuple[str, ...] = (
    """
    CREATE TABLE resources (
        kind TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        uid TEXT NOT NULL UNIQUE,
        version BIGINT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (kind, namespace, name)
    )
    """,
    """
    CREATE TABLE resource_owners (
        owner_uid TEXT NOT NULL,
        uid TEXT NOT NULL,
        PRIMARY KEY (owner_uid, uid)
    )
    """,
    """
    CREATE TABLE resource_events (
        version BIGINT NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        labels_before TEXT,
        deleted_body TEXT
    )
    """,
    """
    CREATE TABLE resource_counter (
        id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
        version BIGINT NOT NULL,
        compacted BIGINT NOT NULL
    )
    """,
    "INSERT INTO resource_counter(id, version, compacted) VALUES (1, 0, 0)",
)

_PARTS = ("metadata", "spec", "status")
_KEY = "kind = :kind AND namespace = :namespace AND name = :name"


class Logged(NamedTuple):
    """One line of the watch log. `labels_before` is None when the resource did not exist before."""

    version: int
    key: ResourceKey
    labels_before: dict[str, str] | None
    deleted: Resource | None


class Versions(NamedTuple):
    """The newest version of the store and the one up to which the log was cut."""

    newest: int
    compacted: int


def lock(tx: Tx) -> None:
    """Whoever changes resources does so alone, whichever server it is; taken behind every other lock."""
    tx.lock("~resources")


def load(tx: Tx, key: ResourceKey) -> Resource | None:
    row = tx.one(f"SELECT version, body FROM resources WHERE {_KEY}", key._asdict())
    return _resource(row) if row is not None else None


def load_kind(tx: Tx, kind: str, namespace: str | None) -> list[Resource]:
    """All of a kind, by namespace and name."""
    rows = tx.all(
        "SELECT version, body FROM resources WHERE kind = :kind "
        "AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) ORDER BY namespace, name",
        {"kind": kind, "namespace": namespace},
    )
    return [_resource(row) for row in rows]


def load_owned(tx: Tx, owner_uid: str) -> list[Resource]:
    rows = tx.all(
        "SELECT r.version, r.body FROM resource_owners o JOIN resources r ON r.uid = o.uid "
        "WHERE o.owner_uid = :uid ORDER BY r.kind, r.namespace, r.name",
        {"uid": owner_uid},
    )
    return [_resource(row) for row in rows]


def exists_any(tx: Tx, uids: Iterable[str]) -> bool:
    return any(tx.one("SELECT 1 FROM resources WHERE uid = :uid", {"uid": uid}) for uid in uids)


def insert(tx: Tx, key: ResourceKey, resource: Resource) -> Resource:
    version = _log(tx, key, None, None)
    tx.run(
        "INSERT INTO resources(kind, namespace, name, uid, version, body) "
        "VALUES (:kind, :namespace, :name, :uid, :version, :body)",
        {**key._asdict(), "uid": uid_of(resource), "version": version, "body": _body(resource)},
    )
    _link_owners(tx, resource)
    return _versioned(resource, version)


def update(tx: Tx, key: ResourceKey, before: Resource, after: Resource) -> Resource:
    version = _log(tx, key, labels_of(before), None)
    tx.run(
        f"UPDATE resources SET version = :version, body = :body WHERE {_KEY}",
        {**key._asdict(), "version": version, "body": _body(after)},
    )
    if owner_uids(before) != owner_uids(after):
        tx.run("DELETE FROM resource_owners WHERE uid = :uid", {"uid": uid_of(after)})
        _link_owners(tx, after)
    return _versioned(after, version)


def remove(tx: Tx, key: ResourceKey, resource: Resource) -> None:
    _log(tx, key, labels_of(resource), resource)
    tx.run(f"DELETE FROM resources WHERE {_KEY}", key._asdict())
    tx.run("DELETE FROM resource_owners WHERE uid = :uid", {"uid": uid_of(resource)})


def versions(tx: Tx) -> Versions:
    row = tx.one("SELECT version, compacted FROM resource_counter WHERE id = 1")
    if row is None:
        raise LookupError("the resource tables were not set up")
    return Versions(row["version"], row["compacted"])


def changes(tx: Tx, kind: str, namespace: str | None, after: int) -> list[Logged]:
    """The log of one kind after a version, oldest first."""
    rows = tx.all(
        "SELECT version, namespace, name, labels_before, deleted_body FROM resource_events "
        "WHERE version > :after AND kind = :kind "
        "AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace) ORDER BY version",
        {"after": after, "kind": kind, "namespace": namespace},
    )
    return [
        Logged(
            row["version"],
            ResourceKey(kind, row["namespace"], row["name"]),
            loads(row["labels_before"]) if row["labels_before"] is not None else None,
            _versioned(loads(row["deleted_body"]), row["version"])
            if row["deleted_body"] is not None
            else None,
        )
        for row in rows
    ]


def cut_log(tx: Tx, up_to: int) -> None:
    """Forget the log up to and with a version."""
    tx.run("DELETE FROM resource_events WHERE version <= :up_to", {"up_to": up_to})
    tx.run("UPDATE resource_counter SET compacted = :up_to WHERE compacted < :up_to", {"up_to": up_to})


def _log(tx: Tx, key: ResourceKey, labels_before: dict[str, str] | None, deleted: Resource | None) -> int:
    # The counter's row is taken within the writing transaction, so versions become visible in their order.
    row = tx.one("UPDATE resource_counter SET version = version + 1 WHERE id = 1 RETURNING version")
    if row is None:
        raise LookupError("the resource tables were not set up")
    version: int = row["version"]
    tx.run(
        "INSERT INTO resource_events(version, kind, namespace, name, labels_before, deleted_body) "
        "VALUES (:version, :kind, :namespace, :name, :labels_before, :deleted_body)",
        {
            **key._asdict(),
            "version": version,
            "labels_before": dumps(labels_before) if labels_before is not None else None,
            "deleted_body": _body(deleted) if deleted is not None else None,
        },
    )
    return version


def _logged(row: Any, kind: str) -> Logged:
    before, deleted = row["labels_before"], row["deleted_body"]
    return Logged(
        row["version"],
        ResourceKey(kind, row["namespace"], row["name"]),
        loads(before) if before is not None else None,
        _versioned(loads(deleted), row["version"]) if deleted is not None else None,
    )


def _link_owners(tx: Tx, resource: Resource) -> None:
    for owner_uid in dict.fromkeys(owner_uids(resource)):
        tx.run(
            "INSERT INTO resource_owners(owner_uid, uid) VALUES (:owner_uid, :uid)",
            {"owner_uid": owner_uid, "uid": uid_of(resource)},
        )


def _body(resource: Resource) -> str:
    metadata = {name: value for name, value in resource["metadata"].items() if name != "resourceVersion"}
    body = dumps({**resource, "metadata": metadata})
    check_size(body)
    return body


def _resource(row: Any) -> Resource:
    """Raises LoopError (`storage_corrupt`) for a row that no store wrote."""
    try:
        resource = loads(row["body"])
    except ValueError:
        resource = None
    if not isinstance(resource, dict) or not all(isinstance(resource.get(part), dict) for part in _PARTS):
        raise LoopError("a stored resource is broken", code=ErrorCode.STORAGE_CORRUPT)
    return _versioned(resource, row["version"])


def _versioned(resource: Resource, version: int) -> Resource:
    return {**resource, "metadata": {**resource["metadata"], "resourceVersion": str(version)}}
