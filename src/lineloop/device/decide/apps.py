"""The registry of apps: what an installation, a switch or a removal makes of the records.

Decides each step of an AppOperation and the record that follows. Leaves to others: reading and copying files
(app_files), what becomes of the app's calls and sessions (the core, in the same commit).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import FieldError, LoopError
from lineloop.protocol.machines import APP_OPERATION, AppOperationEvent, AppOperationState, InstallState
from lineloop.protocol.manifest import AppManifest
from lineloop.protocol.tools import RESERVED_SCOPES

SDK_API_VERSIONS = frozenset({"1"})

OperationKind = Literal["install", "enable", "disable", "remove"]
AppKind = Literal["core", "installed"]
Change = Literal["installed", "enabled", "disabled", "updated", "removed"]


@record
class AppRecord:
    """One app of the registry (seed 001 §5.1). Times in UTC ms; `location` is where its files are.

    `unavailable` is the code that keeps it out of every inventory although it is installed.
    """

    app_scope: str
    kind: AppKind
    installed_version: str
    previous_version: str | None
    enabled: bool
    install_state: InstallState
    unavailable: str | None
    manifest: str
    digest: str
    location: str
    developer: bool
    installed_at: int
    enabled_at: int | None


@record
class Candidate:
    """Files that were read and found to be an app. `manifest_text` is its manifest as JSON."""

    manifest: AppManifest
    manifest_text: str
    digest: str
    location: str


@record
class AppOperation:
    """An observable change of the registry. `step` says what is being done, in one word."""

    operation_id: str
    kind: OperationKind
    app_scope: str | None
    state: AppOperationState
    step: str
    request: str
    error_code: str | None
    error_message: str | None
    created_at: int
    updated_at: int

    @property
    def ended(self) -> bool:
        return self.state in (AppOperationState.SUCCEEDED, AppOperationState.FAILED)


@record
class RegistryDecision:
    """Facts: the record as it is now (None: gone), and the change to tell; None when nothing changed."""

    record: AppRecord | None
    change: Change | None


def unavailable_code(manifest: AppManifest, features: frozenset[str]) -> str | None:
    """SDK negotiation: sdk_incompatible when the version or a required feature is missing here."""
    sdk = manifest.runtime_sdk
    if sdk.api_version not in SDK_API_VERSIONS or not features.issuperset(sdk.required_features):
        return str(ErrorCode.SDK_INCOMPATIBLE)
    return None


def check_installable(
    manifest: AppManifest, execution_errors: Sequence[FieldError], shipped: Collection[str]
) -> None:
    """What a valid manifest may not say when it comes from outside. `shipped`: scopes of the apps that come
    with Lineloop; they stay theirs, also removed, so that nothing else passes for them.

    Raises scope_reserved, manifest_invalid.
    """
    scope = manifest.app_scope
    if scope in RESERVED_SCOPES or scope in shipped:
        owner = "belongs to the Runtime" if scope in RESERVED_SCOPES else "comes with Lineloop"
        raise LoopError(
            f"{scope} {owner}; choose another app_scope", code=ErrorCode.SCOPE_RESERVED, pointer="/app_scope"
        )
    errors = list(execution_errors)
    needs_logic = any(tool.execution is None and not tool.surface for tool in manifest.tools)
    if needs_logic and manifest.logic is None:
        errors.append({"pointer": "/logic", "message": "tools with handlers need a logic file"})
    if errors:
        raise LoopError(
            f"the manifest is not valid: {errors[0]['pointer']}: {errors[0]['message']}",
            code=ErrorCode.MANIFEST_INVALID,
            errors=errors,
        )


def decide_begin(kind: OperationKind, app_scope: str, record: AppRecord | None) -> None:
    """Whether an operation on an existing app may begin. Raises app_not_installed, app_protected."""
    if record is None:
        raise LoopError(f"{app_scope} is not installed", code=ErrorCode.APP_NOT_INSTALLED)
    if record.kind == "core" and kind in ("disable", "remove"):
        raise LoopError(f"{app_scope} is part of the Runtime", code=ErrorCode.APP_PROTECTED)


def decide_install(
    candidate: Candidate, record: AppRecord | None, *, enable: bool, features: frozenset[str], now: int
) -> RegistryDecision:
    """A new app, or other content for an installed one; equal content changes nothing but the switch."""
    manifest = candidate.manifest
    if record is not None and record.kind == "core":
        raise LoopError(f"{record.app_scope} belongs to the Runtime", code=ErrorCode.SCOPE_RESERVED)
    unavailable = unavailable_code(manifest, features)
    enabled = (enable or (record is not None and record.enabled)) and unavailable is None
    if record is not None and record.digest == candidate.digest and record.unavailable == unavailable:
        if enabled == record.enabled:
            return RegistryDecision(record, None)
        return RegistryDecision(replace(record, enabled=enabled, enabled_at=now), "enabled")
    previous_version = None if record is None else record.installed_version
    if record is not None and record.digest == candidate.digest:
        previous_version = record.previous_version  # the same app, made whole again
    enabled_at = now if enabled else (record.enabled_at if record is not None else None)
    new = AppRecord(
        app_scope=manifest.app_scope,
        kind="installed",
        installed_version=manifest.version,
        previous_version=previous_version,
        enabled=enabled,
        install_state=InstallState.INSTALLED,
        unavailable=unavailable,
        manifest=candidate.manifest_text,
        digest=candidate.digest,
        location=candidate.location,
        developer=True,
        installed_at=now if record is None else record.installed_at,
        enabled_at=enabled_at,
    )
    return RegistryDecision(new, "installed" if record is None else "updated")


def decide_enable(record: AppRecord | None, app_scope: str, now: int) -> RegistryDecision:
    """Raises app_not_installed; sdk_incompatible, or what else makes it unavailable."""
    decide_begin("enable", app_scope, record)
    assert record is not None
    if record.unavailable is not None:
        raise LoopError(f"{app_scope} cannot run here", code=record.unavailable)
    if record.enabled:
        return RegistryDecision(record, None)
    return RegistryDecision(replace(record, enabled=True, enabled_at=now), "enabled")


def decide_disable(record: AppRecord | None, app_scope: str) -> RegistryDecision:
    """Raises app_not_installed, app_protected."""
    decide_begin("disable", app_scope, record)
    assert record is not None
    if not record.enabled:
        return RegistryDecision(record, None)
    return RegistryDecision(replace(record, enabled=False), "disabled")


def decide_remove(record: AppRecord | None, app_scope: str) -> RegistryDecision:
    """Raises app_not_installed, app_protected."""
    decide_begin("remove", app_scope, record)
    return RegistryDecision(None, "removed")


def decide_packaged(
    candidate: Candidate,
    record: AppRecord | None,
    *,
    kind: AppKind,
    removed: bool,
    features: frozenset[str],
    now: int,
) -> AppRecord | None:
    """At start: the record of an app that comes with the package; None leaves things as they are.

    Core apps are always there and enabled. A shipped app that the person removed stays removed, one they
    replaced stays theirs, one they disabled stays disabled.
    """
    unavailable = unavailable_code(candidate.manifest, features)
    if record is None:
        if removed and kind != "core":
            return None
        return AppRecord(
            app_scope=candidate.manifest.app_scope,
            kind=kind,
            installed_version=candidate.manifest.version,
            previous_version=None,
            enabled=unavailable is None,
            install_state=InstallState.INSTALLED,
            unavailable=unavailable,
            manifest=candidate.manifest_text,
            digest=candidate.digest,
            location=candidate.location,
            developer=False,
            installed_at=now,
            enabled_at=now if unavailable is None else None,
        )
    if record.developer:
        return None
    unchanged = record.digest == candidate.digest and record.unavailable == unavailable
    if unchanged and record.location == candidate.location:
        return None
    newer = record.installed_version != candidate.manifest.version
    return replace(
        record,
        installed_version=candidate.manifest.version,
        previous_version=record.installed_version if newer else record.previous_version,
        enabled=(record.enabled or kind == "core") and unavailable is None,
        unavailable=unavailable,
        manifest=candidate.manifest_text,
        digest=candidate.digest,
        location=candidate.location,
    )


def decide_availability(
    record: AppRecord, manifest: AppManifest | None, features: frozenset[str], *, files_there: bool
) -> AppRecord:
    """At start: whether an installed app can still run under this version of the Runtime."""
    if manifest is None:
        unavailable = str(ErrorCode.MANIFEST_INVALID)
    elif not files_there:
        unavailable = str(ErrorCode.STORAGE_CORRUPT)
    else:
        unavailable = unavailable_code(manifest, features)
    return record if record.unavailable == unavailable else replace(record, unavailable=unavailable)


def move_operation(
    operation: AppOperation, event: AppOperationEvent, step: str, now: int, error: LoopError | None = None
) -> AppOperation:
    """The operation after `event`. Raises IllegalTransition, so an operation ends once."""
    return replace(
        operation,
        state=APP_OPERATION.next(operation.state, event),
        step=step,
        error_code=str(error.code) if error is not None else None,
        error_message=error.message if error is not None else None,
        updated_at=now,
    )
