"""Where the bytes of attachments lie: in files beside the database, or in the database that servers share.

Decides how bytes become durable and are read again, by the name of their place. Which blob lies where and who
may see it is decided elsewhere: rows in `store`, rules in `commit`.
"""

from __future__ import annotations

from lineloop.server.blobs.files import FileBlobs
from lineloop.server.blobs.port import BlobStore, BlobWriter
from lineloop.server.blobs.tables import TableBlobs

__all__ = ["BlobStore", "BlobWriter", "FileBlobs", "TableBlobs"]
