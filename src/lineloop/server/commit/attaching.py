"""The jobs of attachments: bytes become a blob, messages refer to it, what nobody refers to goes.

A hash is no key to the bytes: whoever attaches or reads a blob must have uploaded it or see a message that
has it. For everybody else it does not exist (spec/protocol.md §3.6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.attachments import UNKNOWN_MEDIA_TYPE, Attachment
from lineloop.protocol.errors import ErrorCode, InvalidRequest, LoopError, NotFound
from lineloop.server.commit.context import CommitContext
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant
from lineloop.server.store import blobs
from lineloop.server.store.blobs import BlobRow

REFERENCES_PAGE = 100


@record
class FoundBlob:
    """Where the bytes lie, and under which name and media type this reader knows them."""

    row: BlobRow
    media_type: str
    name: str | None


def blob_not_found(blob_hash: str) -> NotFound:
    return NotFound("no such blob", code=ErrorCode.BLOB_NOT_FOUND, detail={"hash": blob_hash})


def keep_blob_in(tx: Tx, ctx: CommitContext, blob: BlobRow, uploader: Actor, media_type: str) -> str:
    """The place of the bytes from now on; that of `blob` is not needed when it is another one."""
    return blobs.keep(tx, blob, uploader, media_type, ctx.clock.now_ms())


def refer_in(
    tx: Tx,
    ctx: CommitContext,
    message_id: str,
    conversation_id: str,
    attachments: Sequence[Attachment],
    speaker: Grant | None,
) -> None:
    """The new message refers to its attachments. Raises blob_unknown, InvalidRequest: nothing is said."""
    for one in attachments:
        size = blobs.touch(tx, one.hash, ctx.clock.now_ms())
        if size is None or (speaker is not None and _known_as(tx, one.hash, speaker, None) is None):
            raise LoopError(
                "there is no such blob to attach", code=ErrorCode.BLOB_UNKNOWN, pointer=f"{one.pointer}/hash"
            )
        if size != one.bytes:
            raise InvalidRequest(f"the blob has {size} bytes", pointer=f"{one.pointer}/bytes")
        blobs.refer(tx, message_id, conversation_id, one)


def find_blob(tx: Tx, blob_hash: str, reader: Grant, message_id: str | None) -> FoundBlob:
    """The blob, as this reader may know it; with `message_id` as that message has it.

    Raises blob_not_found.
    """
    row = blobs.get(tx, blob_hash)
    known = _known_as(tx, blob_hash, reader, message_id) if row is not None else None
    if row is None or known is None:
        raise blob_not_found(blob_hash)
    media_type, name = known
    return FoundBlob(row, media_type, name)


def _known_as(tx: Tx, blob_hash: str, grant: Grant, message_id: str | None) -> tuple[str, str | None] | None:
    """(media type, name) under which the credential knows the blob; None when it does not."""
    if message_id is not None:
        one = blobs.reference(tx, blob_hash, message_id)
        if one is None or visible_conversation(tx, one.conversation_id, grant) is None:
            return None
        return one.media_type, one.name
    mine = [one for one in blobs.uploads(tx, blob_hash) if grant.allows(one[0])]
    if mine:
        own = next((one for one in mine if one[0] == (grant.person or grant.pattern)), mine[0])
        return own[1], None
    return _seen_in_a_message(tx, blob_hash, grant)


def _seen_in_a_message(tx: Tx, blob_hash: str, grant: Grant) -> tuple[str, str | None] | None:
    hidden: set[str] = set()
    after = ""
    while page := blobs.references(tx, blob_hash, after=after, limit=REFERENCES_PAGE):
        for one in page:
            if one.conversation_id in hidden:
                continue
            if visible_conversation(tx, one.conversation_id, grant) is not None:
                return one.media_type or UNKNOWN_MEDIA_TYPE, one.name
            hidden.add(one.conversation_id)
        after = page[-1].message_id
    return None


def sweep_blobs_in(tx: Tx, before: int, limit: int, removed: Callable[[str], object]) -> int:
    """Forgets blobs that no message has and that nobody touched since `before` (UTC ms); how many.

    After the commit `removed` is called with each place whose bytes may go.
    """
    found = blobs.unreferenced(tx, before, limit)
    for blob_hash in found:
        place = blobs.forget(tx, blob_hash, before)
        if place is not None:
            tx.after_commit(lambda place=place: removed(place))
    return len(found)
