"""What a failing database means for the one who asked (design decision 3).

An engine turns what went wrong into one of these situations; what an answer on the wire says about them is
decided by the commit rooms of the server and the device.
"""

from __future__ import annotations


class DatabaseError(Exception):
    """Any failure of the store itself, as opposed to a failing job."""


class DatabaseUnavailable(DatabaseError):
    """Nothing was stored: disk full, closed, or refusing work. The same request may succeed later."""


class DatabaseBusyElsewhere(DatabaseUnavailable):
    """Nothing was stored: another process held the write lock for longer than the busy timeout."""


class QueueFull(DatabaseUnavailable):
    """Nothing was stored: too many jobs wait already."""


class DatabaseOutcomeUnknown(DatabaseError):
    """The job may or may not be stored. After an I/O error on a file the database is done, and the process
    must restart; after a connection was lost at a commit the same request finds out.
    """


class DatabaseCorrupt(DatabaseError):
    """The file is not a sound database. The database refuses further work."""


class TransactionEnded(Exception):
    """A job ended the transaction that it was given, without saying why. Its own writes are undone."""


class UnstorableText(ValueError):
    """A text that this engine keeps no text column for: one with a NUL character."""


class DatabaseTooNew(Exception):
    """The database was written by a newer version of the program; it is left as it is."""

    def __init__(self, where: str, revision: str) -> None:
        super().__init__(f"{where} has schema {revision}, which this version does not know")
        self.revision = revision
