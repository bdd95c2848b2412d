"""Launches: one loading of one surface by one page, with its own address that nobody can guess.

Decides what an address serves (the files of the app's `surface/`, by exact name, and a page of HTML once) and
how long: until the page closes it. Files are read once per version of an app, and only when they are the
ones that were installed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from html import escape
from pathlib import Path

from lineloop.device.app_files import AppFolder, read_app
from lineloop.device.containers.port import InstalledApp
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError, NotFound

FOLDER = "surface/"
BOOT = "boot.js"
KEPT_APPS = 16
_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".avif": "image/avif",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_OTHER = "text/plain; charset=utf-8"


@record
class ServedFile:
    """`data` is served as `media_type`."""

    data: bytes
    media_type: str


@record
class SurfaceFiles:
    """The surface of one version of an app: path below the launch → file."""

    entry: str
    styles: tuple[str, ...]
    files: dict[str, ServedFile]


@dataclass(slots=True, eq=False)
class Launch:
    """`id` is the address, `nonce` what its frame shows the shell once; `loaded` once its HTML was served."""

    id: str
    nonce: str
    host_session_id: str
    instance_id: str
    app_scope: str
    surface: SurfaceFiles
    language: str
    theme: str | None
    shell_origin: str
    loaded: bool = False

    @property
    def path(self) -> str:
        return f"/app/{self.id}/"

    def html(self) -> bytes:
        """The page that the app's script runs in. Everything in it is ours or from the manifest."""
        theme = f' data-theme="{escape(self.theme)}"' if self.theme else ""
        styles = "".join(
            f'<link rel="stylesheet" href="{escape(self.path + style)}">' for style in self.surface.styles
        )
        return (
            f'<!doctype html><html lang="{escape(self.language)}" data-lineloop-nonce="{escape(self.nonce)}"'
            f' data-lineloop-shell="{escape(self.shell_origin)}"{theme}><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<script src="{self.path}{BOOT}"></script>{styles}'
            f'<script type="module" src="{escape(self.path + self.surface.entry)}"></script>'
            '</head><body><div id="root"></div></body></html>'
        ).encode()


class Launches:
    """All launches of a device. `boot` is what runs in a surface before the app's own script."""

    def __init__(self, ids: Ids, boot: bytes) -> None:
        self._ids = ids
        self.boot = served(BOOT, boot)
        self._launches: dict[str, Launch] = {}
        self._surfaces: OrderedDict[str, SurfaceFiles] = OrderedDict()

    def find(self, launch_id: str) -> Launch | None:
        return self._launches.get(launch_id)

    def __len__(self) -> int:
        return len(self._launches)

    async def open(
        self,
        app: InstalledApp,
        *,
        host_session_id: str,
        instance_id: str,
        language: str,
        theme: str | None,
        shell_origin: str,
    ) -> Launch:
        """Raises LoopError: not_found for an app without a surface, app_activation_failed when its files are
        not the installed ones.
        """
        surface = await self._files_of(app)
        launch = Launch(
            id=self._ids.secret(16),
            nonce=self._ids.secret(16),
            host_session_id=host_session_id,
            instance_id=instance_id,
            app_scope=app.app_scope,
            surface=surface,
            language=language,
            theme=theme,
            shell_origin=shell_origin,
        )
        self._launches[launch.id] = launch
        return launch

    def close(self, launch_id: str) -> Launch | None:
        """From now on there is nothing at its address."""
        return self._launches.pop(launch_id, None)

    async def _files_of(self, app: InstalledApp) -> SurfaceFiles:
        if app.manifest.surface is None or app.directory is None:
            raise NotFound("this app has no surface")
        known = self._surfaces.get(app.digest)
        if known is None:
            known = await asyncio.to_thread(_read, app.directory, app.digest)
            self._surfaces[app.digest] = known
            while len(self._surfaces) > KEPT_APPS:
                self._surfaces.popitem(last=False)
        return known


def _read(directory: Path, digest: str) -> SurfaceFiles:
    try:
        folder = read_app(directory)
    except OSError as error:
        raise _changed() from error
    if folder.candidate.digest != digest:
        raise _changed()
    return surface_files(folder)


def surface_files(folder: AppFolder) -> SurfaceFiles:
    """What a launch of this app serves."""
    surface = folder.candidate.manifest.surface
    if surface is None:
        raise NotFound("this app has no surface")
    files = {path: served(path, data) for path, data in folder.files.items() if path.startswith(FOLDER)}
    if surface.entry not in files:
        raise NotFound("the surface's script is not in its folder")
    styles = tuple(sorted(path for path in files if path.endswith(".css") and path.count("/") == 1))
    return SurfaceFiles(surface.entry, styles, files)


def served(path: str, data: bytes) -> ServedFile:
    """A file by its name's ending; what has no known one is text, never a page."""
    return ServedFile(data, _TYPES.get(Path(path).suffix, _OTHER))


def _changed() -> LoopError:
    return LoopError(
        "the app's files are not the ones that were installed",
        code=ErrorCode.APP_ACTIVATION_FAILED,
        detail={"reason": "files_changed"},
    )
