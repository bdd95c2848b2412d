"""Files of apps: reading a folder as an app, copying it so that it is there whole or not at all.

Decides which folders are acceptable (names, links, sizes) and where copies live; what the manifest may say is
decided in protocol.manifest and decide/apps. Everything here blocks and belongs in a thread.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path

from lineloop.device.decide.apps import Candidate
from lineloop.kit import json
from lineloop.kit.faults import Faults
from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.manifest import MAX_MANIFEST_BYTES, parse_manifest

MANIFEST_NAME = "manifest.json"
MAX_FILES = 2000
MAX_DEPTH = 8
MAX_TOTAL_BYTES = 64 * 1024 * 1024
_INCOMING = ".incoming-"
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@record
class AppFolder:
    """A folder that was read as an app. `files`: path below the folder → content."""

    candidate: Candidate
    files: dict[str, bytes]


def read_app(directory: Path, location: str | None = None) -> AppFolder:
    """Reads a folder whole. Hidden files are passed over.

    `location` is where a packaged app lies; None: where `copy_app` puts it. A packaged app whose surface has
    not been built is the same app without one: its tools work. Raises LoopError manifest_invalid for a folder
    that is no app, or holds links, special files, odd names or too much.
    """
    files = _read_files(directory)
    manifest_bytes = files.get(MANIFEST_NAME)
    if manifest_bytes is None or len(manifest_bytes) > MAX_MANIFEST_BYTES:
        raise _invalid(f"there is no {MANIFEST_NAME}")
    manifest = parse_manifest(manifest_bytes)
    if location is not None and manifest.surface is not None and manifest.surface.entry not in files:
        manifest_bytes = _without_surface(manifest_bytes)
        manifest = parse_manifest(manifest_bytes)
    for name in (manifest.logic, manifest.icon, manifest.surface.entry if manifest.surface else None):
        if name is not None and name not in files:
            raise _invalid(f"{name} is missing")
    digest = digest_of(files)
    where = location or f"{manifest.app_scope}/{digest[:32]}"
    candidate = Candidate(manifest, json.dumps(json.loads(manifest_bytes)), digest, where)
    return AppFolder(candidate, files)


def _without_surface(manifest: bytes) -> bytes:
    value: dict[str, object] = json.loads(manifest)
    return json.dumps({name: field for name, field in value.items() if name != "surface"}).encode()


def digest_of(files: dict[str, bytes]) -> str:
    """sha256 (hex) of the canonical map path → size and sha256: equal digest, equal app."""
    listing = {
        path: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for path, data in files.items()
    }
    return hashlib.sha256(json.canonical(listing)).hexdigest()


def copy_app(folder: AppFolder, apps_dir: Path, operation_id: str, faults: Faults) -> Path:
    """Writes the files beside their place, makes them durable, then renames. Equal, whole content stays.

    Raises OSError.
    """
    target = apps_dir / folder.candidate.location
    incoming = apps_dir / f"{_INCOMING}{operation_id}"
    if target.is_dir():
        if _is_whole(target, folder.candidate.digest):
            return target
        # What lies there is not what was installed: put it aside, the next start sweeps it away.
        damaged = incoming.with_name(f"{incoming.name}-damaged")
        shutil.rmtree(damaged, ignore_errors=True)
        target.rename(damaged)
    shutil.rmtree(incoming, ignore_errors=True)
    for path, data in folder.files.items():
        _write_durably(incoming / path, data)
    for current, _, _ in os.walk(incoming):
        _sync_folder(Path(current))
    target.parent.mkdir(parents=True, exist_ok=True)
    faults.reach(FaultSite.DEVICE_APPS_COPY_BEFORE_RENAME)
    incoming.rename(target)
    _sync_folder(target.parent)
    _sync_folder(apps_dir)
    faults.reach(FaultSite.DEVICE_APPS_COPY_AFTER_RENAME)
    return target


def _is_whole(directory: Path, digest: str) -> bool:
    try:
        return read_app(directory).candidate.digest == digest
    except (LoopError, OSError):
        return False


def sweep(apps_dir: Path, kept: set[str]) -> None:
    """Deletes half copies and every copy that no record names; `kept` are locations.

    Links are none of ours: what is behind them is somebody else's.
    """
    if not apps_dir.is_dir():
        return
    for entry in apps_dir.iterdir():
        if entry.is_symlink():
            continue
        if entry.name.startswith(_INCOMING):
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.is_dir():
            for version in entry.iterdir():
                if not version.is_symlink() and f"{entry.name}/{version.name}" not in kept:
                    shutil.rmtree(version, ignore_errors=True)
            if not any(entry.iterdir()):
                entry.rmdir()


def _read_files(directory: Path) -> dict[str, bytes]:
    if not directory.is_dir():
        raise _invalid("this is no folder")
    files: dict[str, bytes] = {}
    total = 0
    pending = [(directory, "", 0)]
    while pending:
        current, prefix, depth = pending.pop()
        for entry in sorted(os.scandir(current), key=lambda item: item.name):
            if entry.name.startswith("."):
                continue
            path = f"{prefix}{entry.name}"
            if not _NAME_CHARS.issuperset(entry.name):
                raise _invalid(f"{path!r}: names are letters, digits, dot, dash and underscore")
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                if depth >= MAX_DEPTH:
                    raise _invalid("folders are nested too deeply")
                pending.append((Path(entry.path), f"{path}/", depth + 1))
                continue
            if not stat.S_ISREG(mode):
                raise _invalid(f"{path!r} is neither a file nor a folder")
            total += entry.stat(follow_symlinks=False).st_size
            if total > MAX_TOTAL_BYTES or len(files) >= MAX_FILES:
                raise _invalid("the folder holds too much")
            files[path] = Path(entry.path).read_bytes()
    return files


def _write_durably(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _invalid(message: str) -> LoopError:
    return LoopError(f"not an app: {message}", code=ErrorCode.MANIFEST_INVALID, pointer="")
