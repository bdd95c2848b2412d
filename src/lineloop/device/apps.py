"""The App Registry: the only source of which apps there are, in which version, and whether they are enabled.

Decides the order of an AppOperation's steps: recorded as pending, run one at a time, its last step and the
record's change in one commit with whatever the core makes of it (inventory, ended calls). What a step does to
a record is decided in decide/apps; files are handled in app_files.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import structlog

import lineloop
from lineloop.device.app_files import AppFolder, copy_app, read_app, sweep
from lineloop.device.commit_inbox import AppInbox
from lineloop.device.containers.port import InstalledApp, OnRegistryChanged, RegistryChanged
from lineloop.device.decide.apps import (
    AppKind,
    AppOperation,
    AppRecord,
    OperationKind,
    RegistryDecision,
    check_installable,
    decide_availability,
    decide_begin,
    decide_disable,
    decide_enable,
    decide_install,
    decide_packaged,
    decide_remove,
    move_operation,
)
from lineloop.device.executions import check_executions
from lineloop.device.foundation import Foundation
from lineloop.device.store import apps as store
from lineloop.device.store.session_data import delete_app_data
from lineloop.kit import json
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError, NotFound
from lineloop.protocol.machines import AppOperationEvent, AppOperationState
from lineloop.protocol.manifest import AppManifest, parse_manifest

_log = structlog.get_logger(__name__)

OPERATION = "device.apps.operation"
SDK_FEATURES = frozenset(
    {"app.lifecycle.v1", "app.tools.v1", "app.session-data.v1", "app.inbox.v1", "surface.state.v1"}
)
_CORE = "core:"
_SHIPPED = "shipped:"


@record
class Packaged:
    """Folders of apps that come with Lineloop: `core` are part of the Runtime, `shipped` are preinstalled."""

    core: Path
    shipped: Path

    @classmethod
    def of_this_installation(cls) -> Packaged:
        """The folders beside this package: in a wheel `lineloop/_apps`, in a checkout `apps` at the root."""
        package = Path(str(lineloop.__file__)).parent
        in_wheel = package / "_apps"
        shipped = in_wheel if in_wheel.is_dir() else package.parent.parent / "apps"
        return cls(package / "device" / "core_apps", shipped)


class AppRegistry:
    """The registry of one device.

    `on_changed(tx, change)` runs inside the transaction of every change. Raises LoopError:
    storage_unavailable, and what each method names.
    """

    def __init__(
        self,
        foundation: Foundation,
        *,
        apps_dir: Path,
        inbox: AppInbox,
        on_changed: OnRegistryChanged | None = None,
        packaged: Packaged | None = None,
    ) -> None:
        self._foundation = foundation
        self._runtime_id = foundation.runtime_id
        self._clock = foundation.clock
        self._write = foundation.write
        self._read = foundation.read
        self._apps_dir = apps_dir
        self._inbox = inbox
        self._on_changed = on_changed
        self._packaged = packaged or Packaged.of_this_installation()
        self._tasks = Tasks("apps")
        self._turn = asyncio.Lock()
        self._apps: Mapping[str, InstalledApp] = {}
        self._shipped: frozenset[str] = frozenset()
        self._listeners: list[Callable[[AppOperation], None]] = []

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def apps(self) -> Mapping[str, InstalledApp]:
        """The apps as of the last commit that this process has seen. Not for decisions: see `apps_in`."""
        return self._apps

    def apps_in(self, tx: Tx) -> Mapping[str, InstalledApp]:
        """The apps by scope, as of `tx`: for a decision inside a job."""
        return {record.app_scope: self._installed(record) for record in store.list_apps(tx, self._runtime_id)}

    def app_in(self, tx: Tx, app_scope: str) -> InstalledApp | None:
        """One app as of `tx`, or None."""
        record = store.load_app(tx, self._runtime_id, app_scope)
        return None if record is None else self._installed(record)

    async def records(self) -> list[AppRecord]:
        """Every record, by scope."""
        return await self._read(lambda tx: store.list_apps(tx, self._runtime_id))

    async def operation(self, operation_id: str) -> AppOperation:
        """The operation as it is now. Raises NotFound."""
        found = await self._read(lambda tx: store.load_operation(tx, self._runtime_id, operation_id))
        if found is None:
            raise NotFound("there is no such operation")
        return found

    def subscribe(self, listener: Callable[[AppOperation], None]) -> Callable[[], None]:
        """Tells `listener` of every step of every operation, after its commit. Returns how to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    async def wait(self, operation_id: str) -> AppOperation:
        """The operation once it has ended. Raises NotFound."""
        ended: asyncio.Future[AppOperation] = asyncio.get_running_loop().create_future()

        def listen(operation: AppOperation) -> None:
            if operation.operation_id == operation_id and operation.ended and not ended.done():
                ended.set_result(operation)

        stop = self.subscribe(listen)
        try:
            now = await self.operation(operation_id)
            return now if now.ended else await ended
        finally:
            stop()

    # ── start and end ───────────────────────────────────────────────────────────────────────────────────────

    async def load(self) -> None:
        """Brings the packaged apps in, checks the installed ones, and takes up operations a crash left.

        Call once, before anything else. `apps` is complete when it returns.
        """
        records = await self.records()
        folders = await asyncio.to_thread(self._read_packaged)
        self._shipped = frozenset(folder.candidate.manifest.app_scope for _, folder in folders)
        broken = await asyncio.to_thread(self._find_broken, records, folders)
        live = await self._write(partial(self._load, folders=folders, broken=broken))
        kept = {app.location for app in await self.records()}
        await asyncio.to_thread(sweep, self._apps_dir, kept)
        for operation in live:
            self._tasks.spawn(self._run(operation), name=operation.operation_id)

    async def close(self) -> None:
        """Stops at the next step; what has not ended is taken up by the next `load`."""
        await self._tasks.close()

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────

    async def install(self, directory: Path, *, enable: bool = True) -> AppOperation:
        """Begins to install the app in `directory`, with `enable` for use at once. Returns while it is
        pending.

        It fails with manifest_invalid, scope_reserved, or storage_unavailable.
        """
        request = {"directory": os.path.abspath(directory), "enable": enable}  # noqa: PTH100, ASYNC240
        return await self._begin("install", None, request)

    async def enable(self, app_scope: str) -> AppOperation:
        """Raises app_not_installed; it fails with sdk_incompatible and the like."""
        return await self._begin("enable", app_scope, {})

    async def disable(self, app_scope: str) -> AppOperation:
        """Raises app_not_installed, app_protected."""
        return await self._begin("disable", app_scope, {})

    async def remove(self, app_scope: str) -> AppOperation:
        """Deletes the app with everything it has stored. Raises app_not_installed, app_protected.

        The person's agreement is the caller's affair.
        """
        return await self._begin("remove", app_scope, {})

    async def _begin(
        self, kind: OperationKind, app_scope: str | None, request: dict[str, Any]
    ) -> AppOperation:
        now = self._clock.now_ms()
        operation = AppOperation(
            operation_id=self._foundation.ids.make("aop"),
            kind=kind,
            app_scope=app_scope,
            state=AppOperationState.PENDING,
            step="waiting",
            request=json.dumps(request),
            error_code=None,
            error_message=None,
            created_at=now,
            updated_at=now,
        )

        def job(tx: Tx) -> None:
            if app_scope is not None:
                decide_begin(kind, app_scope, store.load_app(tx, self._runtime_id, app_scope))
            self._save_operation(tx, operation)

        await self._write(job)
        self._tasks.spawn(self._run(operation), name=operation.operation_id)
        return operation

    async def _run(self, operation: AppOperation) -> None:
        """Takes an operation from where it is to its end. A storage failure leaves it for the next start."""
        async with self._turn:
            try:
                if operation.state is AppOperationState.PENDING:
                    operation = await self._step(operation, AppOperationEvent.START, "checking")
                await self._carry_out(operation)
            except LoopError as error:
                if error.code is ErrorCode.STORAGE_UNAVAILABLE:
                    _log.warning("app_operation_left", operation_id=operation.operation_id, why=error.message)
                    return
                await self._step(operation, AppOperationEvent.FAIL, "ended", error)
            except Exception:
                _log.exception("app_operation_failed", operation_id=operation.operation_id)
                error = LoopError("the operation broke", code=ErrorCode.INTERNAL)
                await self._step(operation, AppOperationEvent.FAIL, "ended", error)

    async def _carry_out(self, operation: AppOperation) -> None:
        scope = operation.app_scope
        if operation.kind == "install":
            await self._install(operation)
            return
        assert scope is not None
        decide: Callable[[AppRecord | None], RegistryDecision] = {
            "enable": partial(decide_enable, app_scope=scope, now=self._clock.now_ms()),
            "disable": partial(decide_disable, app_scope=scope),
            "remove": partial(decide_remove, app_scope=scope),
        }[operation.kind]
        await self._finish(operation, scope, decide)
        if operation.kind == "remove":
            kept = {app.location for app in await self.records()}
            await asyncio.to_thread(sweep, self._apps_dir, kept)

    async def _install(self, operation: AppOperation) -> None:
        request = json.loads(operation.request)
        folder = await asyncio.to_thread(read_app, Path(request["directory"]))
        manifest = folder.candidate.manifest
        check_installable(manifest, check_executions(manifest.tools), self._shipped)
        operation = await self._progress(replace(operation, app_scope=manifest.app_scope), "copying")
        try:
            await asyncio.to_thread(
                copy_app, folder, self._apps_dir, operation.operation_id, self._foundation.faults
            )
        except OSError as error:
            raise LoopError(
                f"the app could not be copied: {error.strerror}", code=ErrorCode.LIMIT_EXCEEDED
            ) from error
        decide = partial(
            decide_install,
            folder.candidate,
            enable=bool(request["enable"]),
            features=SDK_FEATURES,
            now=self._clock.now_ms(),
        )
        await self._finish(operation, manifest.app_scope, decide)

    async def _finish(
        self, operation: AppOperation, app_scope: str, decide: Callable[[AppRecord | None], RegistryDecision]
    ) -> None:
        """The one commit of an operation: its end, the record, and all that follows from the change."""

        def job(tx: Tx) -> None:
            decision = decide(store.load_app(tx, self._runtime_id, app_scope))
            now = self._clock.now_ms()
            self._save_operation(tx, move_operation(operation, AppOperationEvent.SUCCEED, "ended", now))
            if decision.change is None:
                return
            if decision.record is None:
                store.delete_app(tx, self._runtime_id, app_scope, now)
                delete_app_data(tx, self._runtime_id, app_scope)
            else:
                store.save_app(tx, self._runtime_id, decision.record)
            self._tell_changed(tx, app_scope, decision)

        await self._write(job, OPERATION)

    def _tell_changed(self, tx: Tx, app_scope: str, decision: RegistryDecision) -> None:
        assert decision.change is not None
        refused = []
        if decision.change == "removed":
            refused = self._inbox.app_gone_in(tx, app_scope, ErrorCode.APP_NOT_INSTALLED, delete=True)
        elif decision.change == "disabled":
            refused = self._inbox.app_gone_in(tx, app_scope, ErrorCode.APP_DISABLED, delete=False)
        apps = self.apps_in(tx)
        if self._on_changed is not None:
            self._on_changed(tx, RegistryChanged(decision.change, app_scope, apps, tuple(refused)))
        tx.after_commit(partial(self._mirror, apps))

    def _mirror(self, apps: Mapping[str, InstalledApp]) -> None:
        self._apps = apps

    async def _step(
        self, operation: AppOperation, event: AppOperationEvent, step: str, error: LoopError | None = None
    ) -> AppOperation:
        moved = move_operation(operation, event, step, self._clock.now_ms(), error)
        await self._write(partial(self._save_operation, operation=moved))
        return moved

    async def _progress(self, operation: AppOperation, step: str) -> AppOperation:
        moved = replace(operation, step=step, updated_at=self._clock.now_ms())
        await self._write(partial(self._save_operation, operation=moved))
        return moved

    def _save_operation(self, tx: Tx, operation: AppOperation) -> None:
        store.save_operation(tx, self._runtime_id, operation)
        tx.after_commit(partial(self._tell, operation))

    def _tell(self, operation: AppOperation) -> None:
        for listener in tuple(self._listeners):
            listener(operation)

    # ── records and files ───────────────────────────────────────────────────────────────────────────────────

    def _read_packaged(self) -> list[tuple[AppKind, AppFolder]]:
        folders: list[tuple[AppKind, AppFolder]] = []
        kinds: tuple[tuple[AppKind, str, Path], ...] = (
            ("core", _CORE, self._packaged.core),
            ("installed", _SHIPPED, self._packaged.shipped),
        )
        for kind, prefix, root in kinds:
            for directory in _app_folders(root):
                try:
                    folder = read_app(directory, f"{prefix}{directory.name}")
                    check_executions_of(folder)
                except LoopError as error:
                    _log.error("packaged_app_broken", directory=str(directory), why=error.message)
                    continue
                folders.append((kind, folder))
        return folders

    def _find_broken(
        self, records: list[AppRecord], packaged: list[tuple[AppKind, AppFolder]]
    ) -> frozenset[str]:
        """Scopes of recorded apps whose files are not the ones that were installed."""
        whole = {folder.candidate.manifest.app_scope for _, folder in packaged}
        broken: set[str] = set()
        for known in records:
            if known.location.startswith((_CORE, _SHIPPED)):
                if known.app_scope not in whole:
                    broken.add(known.app_scope)
                continue
            try:
                digest = read_app(self._directory(known.location)).candidate.digest
            except (LoopError, OSError):
                digest = None
            if digest != known.digest:
                _log.error("installed_app_broken", app_scope=known.app_scope)
                broken.add(known.app_scope)
        return frozenset(broken)

    def _load(
        self, tx: Tx, *, folders: list[tuple[AppKind, AppFolder]], broken: frozenset[str]
    ) -> list[AppOperation]:
        now = self._clock.now_ms()
        for kind, folder in folders:
            scope = folder.candidate.manifest.app_scope
            record = decide_packaged(
                folder.candidate,
                store.load_app(tx, self._runtime_id, scope),
                kind=kind,
                removed=store.was_removed(tx, self._runtime_id, scope),
                features=SDK_FEATURES,
                now=now,
            )
            if record is not None:
                store.save_app(tx, self._runtime_id, record)
        for record in store.list_apps(tx, self._runtime_id):
            checked = decide_availability(
                record,
                _parsed(record.manifest),
                SDK_FEATURES,
                files_there=record.app_scope not in broken,
            )
            if checked is not record:
                store.save_app(tx, self._runtime_id, checked)
        tx.after_commit(partial(self._mirror, self.apps_in(tx)))
        return store.list_live_operations(tx, self._runtime_id)

    def _directory(self, location: str) -> Path:
        if location.startswith(_CORE):
            return self._packaged.core / location.removeprefix(_CORE)
        if location.startswith(_SHIPPED):
            return self._packaged.shipped / location.removeprefix(_SHIPPED)
        return self._apps_dir / location

    def _installed(self, record: AppRecord) -> InstalledApp:
        manifest = _parsed(record.manifest)
        directory = self._directory(record.location)
        if manifest is None:
            manifest = _without_contents(record)
        return InstalledApp(
            app_scope=record.app_scope,
            version=record.installed_version,
            kind=record.kind,
            enabled=record.enabled,
            manifest=manifest,
            tools=_descriptors(record.manifest),
            digest=record.digest,
            directory=directory,
            logic=directory / manifest.logic if manifest.logic else None,
            unavailable=record.unavailable,
        )


def check_executions_of(folder: AppFolder) -> None:
    """Raises LoopError manifest_invalid when a runtime tool does not fit its execution."""
    if errors := check_executions(folder.candidate.manifest.tools):
        message = f"the manifest is not valid: {errors[0]['pointer']}: {errors[0]['message']}"
        raise LoopError(message, code=ErrorCode.MANIFEST_INVALID, errors=errors)


def _app_folders(root: Path) -> Iterable[Path]:
    if not root.is_dir():
        return ()
    return sorted(folder for folder in root.iterdir() if (folder / "manifest.json").is_file())


@lru_cache(maxsize=1024)
def _parsed(manifest_text: str) -> AppManifest | None:
    """The manifest of a record; None when this version of the Runtime does not take it any more."""
    try:
        return parse_manifest(manifest_text)
    except LoopError:
        return None


@lru_cache(maxsize=1024)
def _descriptors(manifest_text: str) -> tuple[Any, ...]:
    manifest = _parsed(manifest_text)
    return () if manifest is None else manifest.descriptors()


def _without_contents(record: AppRecord) -> AppManifest:
    """Stands for a manifest that cannot be read: the app is listed, and nothing of it can be used."""
    return parse_manifest(
        {
            "format": "lineloop.app.v1",
            "app_scope": record.app_scope,
            "version": record.installed_version,
            "title": record.app_scope,
            "runtime_sdk": {"api_version": "1"},
            "entrypoints": [{"id": "none", "kind": "contextual"}],
        }
    )
