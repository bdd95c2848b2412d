"""The upkeep of conversation care, put together: what becomes findable, what nobody wants any more."""

from __future__ import annotations

from pathlib import Path

from lineloop.kit.clock import Clock
from lineloop.kit.faults import Faults
from lineloop.kit.tasks import Tasks
from lineloop.server.blobs import BlobStore, FileBlobs, TableBlobs
from lineloop.server.commit import Commits
from lineloop.server.settings import ServerSettings
from lineloop.server.upkeep.blobs import BlobSweep
from lineloop.server.upkeep.indexing import Indexing
from lineloop.server.upkeep.retention import RetentionSweep
from lineloop.server.wakeup.bus import Bus


def blob_store(
    settings: ServerSettings, commits: Commits, clock: Clock, faults: Faults, *, shared: bool
) -> BlobStore:
    """Where attachments lie: in the directory that was named, else beside the database file; servers that
    share a database (`shared`) and no directory keep them in the database, so that each has them all.
    """
    if settings.blobs is not None:
        return FileBlobs(settings.blobs, faults)
    if shared:
        return TableBlobs(commits, clock)
    return FileBlobs(Path(settings.database).with_name("blobs"), faults)


class Care:
    """`start` runs the tasks in `tasks`, until those are closed."""

    def __init__(
        self, settings: ServerSettings, commits: Commits, store: BlobStore, clock: Clock, bus: Bus
    ) -> None:
        self.retention = RetentionSweep(commits, clock, settings.retention)
        self.indexing = Indexing(commits, clock, bus)
        self.blobs = BlobSweep(commits, store, clock, settings.blob_grace_seconds)

    def start(self, tasks: Tasks) -> None:
        if self.retention.is_on:
            tasks.spawn(self.retention.run(), name="retention")
        tasks.spawn(self.indexing.run(), name="indexing")
        tasks.spawn(self.indexing.sweep(), name="indexing_sweep")
        tasks.spawn(self.blobs.run(), name="blob_sweep")
