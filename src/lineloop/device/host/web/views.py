"""What pages are told, in wire words: instances, the workspace, the apps. Decides nothing."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from lineloop.device.containers.port import InstalledApp
from lineloop.device.decide.state import Instance
from lineloop.device.store.workspace import Workspace

MAX_ICON_BYTES = 16 * 1024
_RASTERS = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"RIFF": "image/webp"}

Apps = Mapping[str, InstalledApp]
WaitMs = Callable[[str], int | None]


def instance_view(
    instance: Instance, workspace: Workspace, apps: Apps, wait_ms: int | None = None
) -> dict[str, Any]:
    """One instance. `wait_ms`: how long its closing is still waited for."""
    app = apps.get(instance.app_scope)
    activation = workspace.activations.get(instance.instance_id)
    view: dict[str, Any] = {
        "instance_id": instance.instance_id,
        "conversation_id": instance.conversation_id,
        "app_scope": instance.app_scope,
        "title": app.manifest.title if app is not None else instance.app_scope,
        "state": instance.state,
        "activation_id": activation.activation_id if activation is not None else None,
        "generation": instance.generation,
        "confirmed": instance.confirmed,
        "surface": app is not None and app.manifest.surface is not None,
    }
    return view if wait_ms is None else {**view, "wait_ms": wait_ms}


def workspace_view(workspace: Workspace, apps: Apps, wait_ms: WaitMs, *, lease: bool) -> dict[str, Any]:
    """The `workspace` event for a page; `lease` says whether that page holds the foreground lease."""
    front = workspace.instance(workspace.front)
    known = {one.instance_id: one for one in workspace.instances}
    stacks = {
        conversation_id: [instance_view(known[name], workspace, apps) for name in stack if name in known]
        for conversation_id, stack in workspace.stacks.items()
    }
    return {
        "lease": lease,
        "foreground": None
        if front is None
        else {"conversation_id": front.conversation_id, "instance_id": front.instance_id},
        "conversations": {name: {"stack": stack} for name, stack in stacks.items()},
        "closing": [
            instance_view(one, workspace, apps, left)
            for one in workspace.closing
            if (left := wait_ms(one.instance_id)) is not None
        ],
    }


def apps_view(workspace: Workspace, apps: Apps) -> dict[str, Any]:
    """The `apps` event: every app, and every instance that runs."""
    return {
        "apps": [_app_view(app) for _, app in sorted(apps.items())],
        "instances": [instance_view(one, workspace, apps) for one in workspace.instances],
    }


def _app_view(app: InstalledApp) -> dict[str, Any]:
    return {
        "app_scope": app.app_scope,
        "title": app.manifest.title,
        "version": app.version,
        "kind": app.kind,
        "enabled": app.enabled,
        "unavailable": app.unavailable,
        "icon": _icon(app),
        "has_surface": app.manifest.surface is not None,
        "tools": len(app.tools),
    }


@lru_cache(maxsize=512)
def _icon(app: InstalledApp) -> str | None:
    """A small raster image as a data URL; other formats could carry script or addresses."""
    if app.manifest.icon is None or app.directory is None:
        return None
    path = app.directory / app.manifest.icon
    try:
        if path.stat().st_size > MAX_ICON_BYTES:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    media_type = next((kind for head, kind in _RASTERS.items() if data.startswith(head)), None)
    if media_type is None:
        return None
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"
