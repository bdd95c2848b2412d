"""What tests of apps share: a real database file with the tables of apps, and the parts that stand on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineloop.device.apps import AppRegistry, Packaged
from lineloop.device.bridge.session_bridge import SessionBridge
from lineloop.device.commit_inbox import AppInbox
from lineloop.device.commit_session_data import SessionData
from lineloop.device.containers.child import LogicLimits
from lineloop.device.containers.logic import Bridge
from lineloop.device.containers.pool import ContainerPool
from lineloop.device.containers.port import (
    Completed,
    Failed,
    InstalledApp,
    Invocation,
    RegistryChanged,
    SessionContext,
)
from lineloop.device.foundation import Foundation
from lineloop.device.migrations.fresh import fresh_statements
from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.faults import Faults
from lineloop.kit.ids import Ids
from lineloop.kit.sqlite.database import SqliteDatabase
from lineloop.kit.tasks import Tasks
from lineloop.protocol.manifest import parse_manifest
from lineloop.testing import FakeClock

RUNTIME = "device_1"
PROBE = Path(__file__).parents[2] / "fixtures" / "apps" / "probe"

# The core's table of sub-sessions, as far as session data look at it.
SUB_SESSIONS = """
CREATE TABLE IF NOT EXISTS sub_sessions (
  app_session_id TEXT NOT NULL PRIMARY KEY, runtime_id TEXT NOT NULL, conversation_id TEXT NOT NULL,
  app_scope TEXT NOT NULL, state TEXT NOT NULL, created_at BIGINT NOT NULL, closed_at BIGINT
)
"""


def create_tables(tx: Tx) -> None:
    """The tables, made once per file."""
    tx.execute(SUB_SESSIONS)
    if tx.one("SELECT 1 FROM sqlite_master WHERE name = 'apps'") is None:
        for statement in fresh_statements():
            if "sub_sessions" not in statement:
                tx.execute(statement)


@dataclass
class Heard:
    """Container events as they came."""

    progress_values: list[tuple[str, int, Any]] = field(default_factory=list[tuple[str, int, Any]])
    closed_calls: list[tuple[str, Completed | Failed]] = field(
        default_factory=list[tuple[str, Completed | Failed]]
    )
    exits: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def progress(self, session: SessionContext, call_id: str, number: int, value: Any) -> None:
        self.progress_values.append((call_id, number, value))

    def closed(self, session: SessionContext, call_id: str, outcome: Completed | Failed) -> None:
        self.closed_calls.append((call_id, outcome))

    def exited(self, session: SessionContext, reason: str) -> None:
        self.exits.append((session.app_session_id, reason))


class AppsWorld:
    """One device's apps. `changes` are the registry changes that the core would see."""

    def __init__(self, foundation: Foundation, folder: Path, limits: LogicLimits, packaged: Packaged | None):
        self.foundation = foundation
        self.folder = folder
        self.tasks = Tasks("world")
        self.heard = Heard()
        self.changes: list[RegistryChanged] = []
        self.session_data = SessionData(foundation)
        self.inbox = AppInbox(foundation)
        self.registry = AppRegistry(
            foundation,
            apps_dir=folder / "apps",
            inbox=self.inbox,
            on_changed=lambda _, change: self.changes.append(change),
            packaged=packaged,
        )
        self.pool = ContainerPool(self.heard, self.open_bridge, limits=limits, faults=foundation.faults)

    def open_bridge(self, session: SessionContext, send: Any) -> Bridge:
        return SessionBridge(
            session, send, session_data=self.session_data, inbox=self.inbox, tasks=self.tasks
        )

    async def session(
        self, app_session_id: str = "ses_1", app_scope: str = "probe", conversation_id: str = "con_1"
    ) -> SessionContext:
        """An open sub-session, as the core would have made it."""

        def job(tx: Tx) -> None:
            tx.run(
                "INSERT INTO sub_sessions VALUES (:id, :runtime, :conversation, :scope, 'open', 0, NULL)"
                " ON CONFLICT DO NOTHING",
                {
                    "id": app_session_id,
                    "runtime": RUNTIME,
                    "conversation": conversation_id,
                    "scope": app_scope,
                },
            )

        await self.foundation.write(job)
        return SessionContext(app_scope, app_session_id, conversation_id, "1.0.0")


@asynccontextmanager
async def apps_world(
    folder: Path,
    *,
    clock: Clock | None = None,
    faults: Faults | None = None,
    limits: LogicLimits | None = None,
    packaged: Packaged | None = None,
) -> AsyncGenerator[AppsWorld]:
    """A world on `folder`; entering it again on the same folder is a restart."""
    clock = clock or FakeClock()
    database = await SqliteDatabase.open(folder / "device.db", clock=clock, faults=faults)
    foundation = Foundation(
        database,
        clock,
        Ids(clock),
        RUNTIME,
        faults or Faults.none(),
    )
    world = AppsWorld(
        foundation, folder, limits or LogicLimits(turn_seconds=0.2, silence_seconds=5.0), packaged
    )
    await foundation.write(create_tables)
    try:
        yield world
    finally:
        await world.registry.close()
        await world.pool.close()
        await world.tasks.close()
        await database.close()


def probe_app(directory: Path = PROBE, digest: str = "probe") -> InstalledApp:
    """The test app, without a registry."""
    manifest = parse_manifest((directory / "manifest.json").read_bytes())
    return InstalledApp(
        app_scope=manifest.app_scope,
        version=manifest.version,
        kind="installed",
        enabled=True,
        manifest=manifest,
        tools=manifest.descriptors(),
        digest=digest,
        directory=directory,
        logic=directory / "logic.js",
    )


def call(method: str, params: dict[str, Any] | None = None, call_id: str = "call_1") -> Invocation:
    return Invocation(call_id, method, "1", params or {})
