"""What pages are told of apps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lineloop.device.containers.port import InstalledApp
from lineloop.device.host.web.views import MAX_ICON_BYTES, apps_view
from lineloop.device.store.workspace import Workspace
from lineloop.protocol.manifest import parse_manifest

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
PNG = b"\x89PNG\r\n\x1a\n"


def an_app(folder: Path, icon: str, data: bytes) -> InstalledApp:
    (folder / icon).write_bytes(data)
    manifest = parse_manifest(
        {
            "format": "lineloop.app.v1",
            "app_scope": "notes",
            "version": "1.0.0",
            "title": "<img src=x onerror=alert(1)>",
            "runtime_sdk": {"api_version": "1"},
            "entrypoints": [{"id": "notes", "kind": "contextual"}],
            "icon": icon,
        }
    )
    return InstalledApp("notes", "1.0.0", "installed", True, manifest, (), f"{icon}{len(data)}", folder)


def icon_of(app: InstalledApp) -> str | None:
    return apps_view(Workspace(), {"notes": app})["apps"][0]["icon"]


@pytest.mark.requirement("X04")
def test_only_a_small_raster_icon_is_shown(tmp_path: Path) -> None:
    assert icon_of(an_app(tmp_path, "icon.svg", SVG)) is None
    assert icon_of(an_app(tmp_path, "icon.html", SVG)) is None
    assert icon_of(an_app(tmp_path, "icon.png", PNG + b"x" * MAX_ICON_BYTES)) is None
    shown = icon_of(an_app(tmp_path, "icon.png", PNG))
    assert shown is not None
    assert shown.startswith("data:image/png;base64,")


@pytest.mark.requirement("X04")
def test_an_icon_is_what_its_bytes_are_not_what_its_name_says(tmp_path: Path) -> None:
    assert icon_of(an_app(tmp_path, "icon.png", SVG)) is None


def test_an_icon_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    app = an_app(tmp_path, "icon.png", PNG)
    assert icon_of(replace(app, directory=tmp_path / "gone", digest="other")) is None
