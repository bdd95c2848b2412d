"""B7, inventory: what an agent sees of 200 apps, after one of them has changed. In process."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Goal, Row, single
from lineloop.device.commit.catalogue import Shelf
from lineloop.device.containers.port import InstalledApp
from lineloop.device.host.headless import HeadlessHost
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids
from lineloop.protocol.manifest import parse_manifest

PROBE = Path(__file__).parent.parent / "tests/fixtures/apps/probe"
APPS, CHANGES, WARM = 200, 60, 10


def named(scope: str) -> InstalledApp:
    """The probe app under another name."""
    manifest = parse_manifest((PROBE / "manifest.json").read_text().replace("probe", scope).encode())
    return InstalledApp(
        app_scope=scope,
        version=manifest.version,
        kind="installed",
        enabled=True,
        manifest=manifest,
        tools=manifest.descriptors(),
        digest=scope,
        directory=PROBE,
        logic=PROBE / "logic.js",
    )


def measure() -> Row:
    apps = {app.app_scope: app for app in (named(f"app{number:03}") for number in range(APPS))}
    features = HeadlessHost(Ids(SystemClock())).features
    times: list[float] = []
    for number in range(CHANGES):
        changed = apps[f"app{number:03}"]
        apps[changed.app_scope] = replace(changed, digest=f"{changed.digest}-{number}")
        begun = time.perf_counter()
        seen = Shelf(apps, (), features).inventory("operator/bench", "con_bench")
        times.append((time.perf_counter() - begun) * 1000)
        assert len(seen.payload["tools"]) >= APPS, seen.payload
    return single(f"inventory of {APPS} apps after one has changed", "ms", times[WARM:], Goal("<=", 5.0))
