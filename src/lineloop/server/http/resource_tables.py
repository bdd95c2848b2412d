"""How resources look as a table, which is what `kubectl get` asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_COLUMNS = (
    ("Name", "string"),
    ("Title", "string"),
    ("Owner", "string"),
    ("Participants", "integer"),
    ("Waiting", "integer"),
    ("Age", "date"),
)


def is_table_wanted(accept: str) -> bool:
    return "as=Table" in accept.replace(" ", "")


def table_of(resources: Sequence[Mapping[str, Any]], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A meta.k8s.io/v1 Table. "Waiting" counts participants with uncommitted input."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": dict(metadata),
        "columnDefinitions": [
            {"name": name, "type": kind, "format": "name" if name == "Name" else "", "description": ""}
            for name, kind in _COLUMNS
        ],
        "rows": [{"cells": _cells(one), "object": _partial(one)} for one in resources],
    }


def _cells(resource: Mapping[str, Any]) -> list[Any]:
    spec: Mapping[str, Any] = resource.get("spec", {})
    metadata: Mapping[str, Any] = resource.get("metadata", {})
    participants: list[dict[str, Any]] = spec.get("participants", [])
    consumers: list[dict[str, Any]] = resource.get("status", {}).get("consumers", [])
    committed = {(one["kind"], one["key"]): one["committed"] for one in consumers}
    waiting = sum(1 for p in participants if p["endOffset"] > committed.get((p["kind"], p["key"]), 0))
    owner: Mapping[str, Any] = spec.get("owner", {})
    return [
        metadata.get("name", ""),
        spec.get("name", ""),
        f"{owner.get('kind', '')}/{owner.get('key', '')}",
        len(participants),
        waiting,
        metadata.get("creationTimestamp", ""),
    ]


def _partial(resource: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": resource.get("metadata", {}),
    }
