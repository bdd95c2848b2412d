"""The answers of the app-registry app: which apps there are, what they ask for, switching and removing them.

Decides how a record looks to the person. What may be done to an app, and what follows from it, is decided in
decide/apps and the registry.
"""

from __future__ import annotations

from typing import Any

from lineloop.device.bridge.session_bridge import Request
from lineloop.device.core_apps.port import SessionParts
from lineloop.device.core_apps.state_feed import States
from lineloop.device.decide.apps import AppOperation, AppRecord
from lineloop.device.store.startup import default_app
from lineloop.kit.clock import rfc3339
from lineloop.protocol.manifest import AppManifest


class RegistrySession:
    """One open session of the app-registry app."""

    def __init__(self, session: SessionParts) -> None:
        self._registry = session.parts.registry
        self._foundation = session.parts.foundation
        self._choose_default = session.parts.choose_default
        self._states = States(session.outgoing, self.state)
        self._stop = self._registry.subscribe(self._changed)

    @property
    def requests(self) -> dict[str, Request]:
        return {
            **self._states.requests,
            "registry.list": self._list,
            "registry.enable": self._enable,
            "registry.disable": self._disable,
            "registry.remove": self._remove,
            "registry.operation": self._operation,
            "registry.set_default": self._set_default,
        }

    async def state(self) -> dict[str, Any]:
        """`{"apps": […], "default_app"}`, by scope; the app that the person sees first, null = chat."""
        manifests = {scope: app.manifest for scope, app in self._registry.apps.items()}
        records = await self._registry.records()
        foundation = self._foundation
        default = await foundation.read(lambda tx: default_app(tx, foundation.runtime_id))
        apps = [app_wire(one, manifests.get(one.app_scope)) for one in records]
        return {"apps": apps, "default_app": default}

    def model_changed(self) -> None:
        """No part of this app."""

    def close(self) -> None:
        self._stop()
        self._states.close()

    def _changed(self, _: AppOperation) -> None:
        self._states.changed()

    async def _list(self, _: dict[str, Any]) -> dict[str, Any]:
        return await self.state()

    async def _enable(self, payload: dict[str, Any]) -> dict[str, Any]:
        return operation_wire(await self._registry.enable(payload["app_scope"]))

    async def _disable(self, payload: dict[str, Any]) -> dict[str, Any]:
        return operation_wire(await self._registry.disable(payload["app_scope"]))

    async def _remove(self, payload: dict[str, Any]) -> dict[str, Any]:
        return operation_wire(await self._registry.remove(payload["app_scope"]))

    async def _set_default(self, payload: dict[str, Any]) -> dict[str, Any]:
        await self._choose_default(payload["app_scope"])
        self._states.changed()
        return {"default_app": payload["app_scope"]}

    async def _operation(self, payload: dict[str, Any]) -> dict[str, Any]:
        return operation_wire(await self._registry.operation(payload["operation_id"]))


def app_wire(record: AppRecord, manifest: AppManifest | None) -> dict[str, Any]:
    """An app as the person sees it: what it is, what it asks for and why, what agents may call."""
    capabilities = manifest.capabilities if manifest is not None else ()
    return {
        "app_scope": record.app_scope,
        "title": manifest.title if manifest is not None else record.app_scope,
        "version": record.installed_version,
        "kind": record.kind,
        "enabled": record.enabled,
        "unavailable": record.unavailable,
        "publisher": manifest.publisher_key_id if manifest is not None else None,
        "isolation": _isolation(record, manifest),
        "permissions": [{"name": one.name, "purpose": one.purpose} for one in capabilities],
        "tools": [tool.title for tool in manifest.tools] if manifest is not None else [],
        "developer": record.developer,
        "default_eligible": record.kind != "core"
        and manifest is not None
        and any(one.default_eligible for one in manifest.entrypoints),
        "installed_at": rfc3339(record.installed_at),
    }


def _isolation(record: AppRecord, manifest: AppManifest | None) -> list[str]:
    """Where the app's code runs: `shell` (core apps), `process` (its logic), `frame` (its surface)."""
    if record.kind == "core":
        return ["shell"]
    places = [] if manifest is None or manifest.logic is None else ["process"]
    return places if manifest is None or manifest.surface is None else [*places, "frame"]


def operation_wire(operation: AppOperation) -> dict[str, Any]:
    """How far a change of the registry has come."""
    error = None
    if operation.error_code is not None:
        error = {"code": operation.error_code, "message": operation.error_message}
    return {
        "operation_id": operation.operation_id,
        "kind": operation.kind,
        "app_scope": operation.app_scope,
        "state": str(operation.state),
        "step": operation.step,
        "error": error,
        "updated_at": rfc3339(operation.updated_at),
    }
