"""Routes of attachments: bytes in, bytes out (spec/protocol.md §3.6).

What somebody uploaded is never shown by this server as a page: it is a download of the declared type, in a
sandbox of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

from pydantic import Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from lineloop.protocol.actors import Actor
from lineloop.protocol.attachments import HASH_PREFIX, Blob, is_blob_hash, media_type_of
from lineloop.protocol.body_schemas import ACTOR_TEXT
from lineloop.protocol.errors import ConnectionLost, ErrorCode, InvalidRequest
from lineloop.server.blobs import BlobStore, BlobWriter
from lineloop.server.blobs.port import new_place
from lineloop.server.commit.attaching import FoundBlob, blob_not_found, find_blob, keep_blob_in
from lineloop.server.decide.access import Verb
from lineloop.server.http.documents import BlobDocument, document
from lineloop.server.http.lists import Query, json_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.store.blobs import BlobRow

UPLOAD_PATH = "/v1/blobs"
_UPLOAD_ERRORS = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.LIMIT_EXCEEDED,
    ErrorCode.OVERLOADED,
    ErrorCode.REQUEST_TIMEOUT,
)
_HASH: dict[str, JsonValue] = {"pattern": "^sha256:[0-9a-f]{64}$"}
_SANDBOX = "sandbox; default-src 'none'; frame-ancestors 'none'"


class UploadQuery(Query):
    """`hash`: what the bytes must be. `actor`: who brings them, where the credential fits several."""

    hash: Annotated[str | None, Field(max_length=128, json_schema_extra=_HASH)] = None
    actor: Annotated[str | None, Field(max_length=300, json_schema_extra=ACTOR_TEXT)] = None


class DownloadQuery(Query):
    message_id: Annotated[str | None, Field(max_length=128)] = None


def blob_routes(services: Services, store: BlobStore) -> Routes:
    router = Routes(prefix="/v1", tags=["blobs"])
    commits = services.commits

    @router.post(
        "/blobs",
        openapi_extra=document(BlobDocument, statuses=(201,), errors=_UPLOAD_ERRORS, raw_body=True),
        query=UploadQuery,
    )
    async def upload(request: Request, query: UploadQuery) -> Response:
        """Stores the body as it is; the same bytes again answer the same. Durable when it is answered."""
        grant = await services.grant(request, Verb.SPEAK)
        uploader = grant.actor(Actor.parse(query.actor) if query.actor else None)
        if query.hash is not None and not is_blob_hash(query.hash):
            raise InvalidRequest("hash is sha256: and 64 hexadecimal digits", pointer="/hash")
        media_type = media_type_of(request.headers.get("content-type"))
        place = new_place(services.clock.now_ms(), services.ids.make("blb"))
        row = await _received(request, store, place, query.hash)
        kept = await commits.write(
            lambda tx: keep_blob_in(tx, commits.ctx, row, uploader, media_type), "server.blob", row.hash
        )
        if kept != place:
            await store.remove(place)
        return json_response(Blob(row.hash, row.bytes, media_type).to_wire(), 201)

    @router.get(
        "/blobs/{blob_hash}",
        openapi_extra=document(None, errors=(ErrorCode.BLOB_NOT_FOUND,)),
        query=DownloadQuery,
    )
    async def download(request: Request, blob_hash: str, query: DownloadQuery) -> Response:
        """For who uploaded it or sees a message that has it; with `message_id` as that message names it."""
        grant = await services.grant(request, Verb.READ)
        if not is_blob_hash(blob_hash):
            raise blob_not_found(blob_hash)
        found = await commits.read(lambda tx: find_blob(tx, blob_hash, grant, query.message_id))
        headers = _headers(found)
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers={"etag": headers["etag"]})
        return services.streamed(grant, store.read(found.row.place), media_type=None, headers=headers)

    return router


async def _received(request: Request, store: BlobStore, place: str, expected: str | None) -> BlobRow:
    """The body in its place. Raises InvalidRequest, LimitExceeded, ConnectionLost, StorageUnavailable."""
    writer = await store.begin(place)
    whole = False
    try:
        digest, size = await _passed_on(request, writer)
        found = f"{HASH_PREFIX}{digest}"
        if expected is not None and expected != found:
            raise InvalidRequest(f"the bytes are {found}", pointer="/hash")
        await writer.finish()
        whole = True
        return BlobRow(found, size, place)
    finally:
        if not whole:
            await writer.discard()


async def _passed_on(request: Request, writer: BlobWriter) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    async for part in _parts(request):
        digest.update(part)
        size += len(part)
        await writer.write(part)
    return digest.hexdigest(), size


async def _parts(request: Request) -> AsyncIterator[bytes]:
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionLost("the client went away before its upload was complete")
        if body := message.get("body", b""):
            yield body
        if not message.get("more_body", False):
            return


def _headers(found: FoundBlob) -> dict[str, str]:
    disposition = "attachment"
    if found.name is not None:
        disposition += f"; filename*=UTF-8''{quote(found.name, safe='')}"
    return {
        "content-type": found.media_type,
        "content-length": str(found.row.bytes),
        "content-disposition": disposition,
        "content-security-policy": _SANDBOX,
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "private, max-age=31536000, immutable",
        "etag": f'"{found.row.hash}"',
    }
