"""What every part of one process shares: data directory, time, ids, planned faults, credentials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from lineloop.cli.credentials import Credentials
from lineloop.cli.lifetime import planned_faults
from lineloop.kit.clock import Clock, SystemClock
from lineloop.kit.faults import Faults
from lineloop.kit.filesystem import refuse_unusable_directory
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.settings import Settings


@record
class Surroundings:
    data_dir: Path
    clock: Clock
    ids: Ids
    faults: Faults
    credentials: Credentials
    keep: str | None = None
    blobs: Path | None = None
    admission: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, settings: Settings) -> Surroundings:
        """Makes the data directory when it is missing. Raises CommandFailed for an unknown fault, OSError,
        NetworkFilesystem.
        """
        clock = SystemClock()
        ids = Ids(clock)
        refuse_unusable_directory(settings.data_dir)
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(
            settings.data_dir,
            clock,
            ids,
            planned_faults(settings),
            Credentials(settings.data_dir, ids),
            settings.keep,
            settings.blobs,
            settings.admission,
        )
