"""App manifests (spec/protocol.md §7.7)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from lineloop.kit import json
from lineloop.protocol.errors import ErrorCode, LoopError
from lineloop.protocol.manifest import parse_manifest

ROOT = Path(__file__).resolve().parents[3]
SHIPPED = [
    *sorted(ROOT.glob("apps/*/manifest.json")),
    *sorted(ROOT.glob("src/lineloop/device/core_apps/*/manifest.json")),
]
SEED: dict[str, Any] = {
    "format": "lineup.app.v1",
    "app_scope": "whiteboard",
    "version": "1.2.0",
    "runtime_sdk": {
        "api_version": "1",
        "required_features": ["app.lifecycle.v1", "app.tools.v1"],
        "optional_features": ["artifact.create.v1"],
    },
    "entrypoints": [{"id": "canvas", "kind": "contextual", "default_eligible": False}],
    "agent_subscriptions": [{"type": "lineup.app.state.patch", "scope": "instance"}],
    "tools": [
        {
            "method": "board.create",
            "contract_version": "1",
            "handling": "direct",
            "delivery": "miniapp_sdk",
            "activation_requirement": "app_ready",
            "input_schema": {"type": "object", "additionalProperties": False},
            "output_schema": {"type": "object", "additionalProperties": False},
        }
    ],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    manifest: Any = copy.deepcopy(SEED)
    *parents, last = path.split("/")[1:]
    place = manifest
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return manifest


@pytest.mark.requirement("P13")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_every_app_that_ships_has_a_valid_manifest(path: Path) -> None:
    manifest = parse_manifest(path.read_bytes())
    assert manifest.app_scope == path.parent.name
    assert parse_manifest(manifest.to_wire()) == manifest


@pytest.mark.requirement("P13")
def test_the_older_format_is_read_too() -> None:
    tool = parse_manifest(SEED).descriptors()[0]
    assert (tool.key, tool.call_model, tool.title) == (
        ("whiteboard", "board.create", "1"),
        "command",
        "board.create",
    )


@pytest.mark.requirement("P13")
@pytest.mark.parametrize(
    ("path", "value", "pointer"),
    [
        ("/format", "lineup.app.v9", "/format"),
        ("/app_scope", "White Board", "/app_scope"),
        ("/version", "1", "/version"),
        ("/entrypoints", [], "/entrypoints"),
        ("/surprise", 1, "/surprise"),
        ("/tools/0/surprise", 1, "/tools/0/surprise"),
        ("/tools/0/app_scope", "todo", "/tools/0/app_scope"),
        ("/tools/0/input_schema", {"type": "wish"}, "/tools/0/input_schema"),
        ("/tools/0/output_schema", {"$ref": "https://x.example/"}, "/tools/0/output_schema"),
        ("/surface", {"entry": "../secret.html"}, "/surface/entry"),
        ("/surface", {"entry": "/etc/passwd"}, "/surface/entry"),
        ("/icon", "a//b.png", "/icon"),
        ("/ui_actions", [{"name": "tap", "schema": {"type": 1}}], "/ui_actions/0/schema"),
        ("/capabilities", [{"name": "clipboard.read", "purpose": ""}], "/capabilities/0/purpose"),
        ("/agent_subscriptions/0/type", "*", "/agent_subscriptions/0/type"),
    ],
)
def test_a_broken_place_is_named(path: str, value: Any, pointer: str) -> None:
    with pytest.raises(LoopError) as refusal:
        parse_manifest(changed(path, value))
    assert refusal.value.code is ErrorCode.MANIFEST_INVALID
    assert pointer in [place["pointer"] for place in refusal.value.errors]


@pytest.mark.requirement("P13")
def test_declaring_twice_and_colliding_names_are_refused() -> None:
    twice = changed("/tools", [SEED["tools"][0], SEED["tools"][0]])
    colliding = changed("/tools", [{**SEED["tools"][0], "method": name} for name in ("a.b", "a_b")])
    for manifest in (twice, colliding):
        with pytest.raises(LoopError) as refusal:
            parse_manifest(manifest)
        assert refusal.value.code is ErrorCode.MANIFEST_INVALID


@pytest.mark.requirement("P13")
@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"null", b'{"format":1,"format":2}', b"\xff", b'{"a":' * 5000, b" " * (1024 * 1024 + 1)],
)
def test_what_is_no_manifest_is_refused(raw: bytes) -> None:
    with pytest.raises(LoopError) as refusal:
        parse_manifest(raw)
    assert refusal.value.code is ErrorCode.MANIFEST_INVALID


def test_what_is_published_says_nothing_about_the_inside_of_the_app() -> None:
    manifest = parse_manifest(changed("/tools/0/writes", True))
    assert manifest.tools[0].writes
    assert "writes" not in json.dumps(manifest.descriptors()[0].to_wire())
