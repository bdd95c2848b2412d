"""Attachments: bytes by their hash, and who may have them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, emit, end, history, open_stream, set_text, speak

from lineloop.client import Loop
from lineloop.client.in_process import InProcessTransport
from lineloop.protocol.attachments import Blob
from lineloop.protocol.errors import InvalidRequest, NotFound
from lineloop.server.blobs import BlobStore, FileBlobs, TableBlobs
from lineloop.server.blobs.port import new_place
from lineloop.testing.server_world import ServerWorld, server_world

PDF = b"%PDF-1.7 " + bytes(range(256)) * 40


def hash_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


async def upload(
    client: httpx.AsyncClient, body: Any, status: int = 201, kind: str = "application/pdf", **params: str
) -> Json:
    answer = await client.post("/v1/blobs", content=body, params=params, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    return answer.json()


async def lying(world: ServerWorld) -> int:
    """In how many places bytes lie."""
    if isinstance(world.server.blobs, FileBlobs):
        return len(await world.server.blobs.places(2**52))
    count = "SELECT count(DISTINCT place) FROM blob_parts"
    row = await world.server.commits.read(lambda tx: tx.one(count))
    assert row is not None
    return row[0]


def block(blob: Json, **changes: Any) -> Json:
    return {"id": "file", "type": "attachment", "name": "plan.pdf", **blob, **changes}


def content(*blocks: Json) -> Json:
    return {"version": "1.1", "biz": "chat", "meta": {}, "blocks": list(blocks)}


async def fetch(client: httpx.AsyncClient, blob: Json, status: int = 200, **params: str) -> httpx.Response:
    answer = await client.get(f"/v1/blobs/{blob['hash']}", params=params)
    assert answer.status_code == status, answer.text
    return answer


@pytest.mark.requirement("C7")
async def test_what_was_uploaded_is_attached_and_read_by_who_sees_the_message(world: ServerWorld) -> None:
    conversation = await world.conversation()
    await world.invite(conversation, "operator/echo")
    echo, stranger = await world.actor("operator/echo"), await world.actor("operator/stranger")
    blob = await upload(world.http, PDF, hash=hash_of(PDF))
    assert blob == {"hash": hash_of(PDF), "bytes": len(PDF), "media_type": "application/pdf"}
    assert (await fetch(echo, blob, 404)).json()["code"] == "blob_not_found"
    message = await speak(world.http, conversation, "a", content=content(block(blob)))
    await world.restart()
    answer = await fetch(echo, blob)
    assert answer.content == PDF
    assert (await fetch(echo, blob, message_id=message["id"])).content == PDF
    assert (await fetch(world.http, blob)).content == PDF
    for params in ({}, {"message_id": message["id"]}):
        refused = (await fetch(stranger, blob, 404, **params)).json()
        assert refused["code"] == "blob_not_found"


@pytest.mark.requirement("C8")
async def test_bytes_are_a_download_in_a_sandbox_whatever_they_are(world: ServerWorld) -> None:
    conversation = await world.conversation()
    page = b"<script>alert(1)</script>"
    blob = await upload(world.http, page, kind="text/html; charset=utf-8")
    assert blob["media_type"] == "text/html"
    named = block(blob, name='旅行 "a".html')
    message = await speak(world.http, conversation, "a", content=content(named))
    answer = await fetch(world.http, blob, message_id=message["id"])
    headers = answer.headers
    assert headers["content-type"] == "text/html"
    assert headers["content-disposition"].startswith("attachment; filename*=UTF-8''%E6%97%85")
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert "private" in headers["cache-control"]
    again = await world.http.get(f"/v1/blobs/{blob['hash']}", headers={"if-none-match": headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.requirement("C7")
async def test_a_hash_alone_is_no_key_to_what_others_stored(world: ServerWorld) -> None:
    theirs, mine = await world.conversation(), await world.conversation()
    eva = await world.actor("user/eva")
    await world.invite(mine, "user/eva")
    secret = await upload(world.http, b"secret plans")
    await speak(world.http, theirs, "a", content=content(block(secret)))
    refused = await speak(eva, mine, "b", status=422, content=content(block(secret)))
    assert refused["code"] == "blob_unknown"
    assert refused["errors"][0]["pointer"] == "/content/blocks/0/hash"
    await fetch(eva, secret, 404)
    assert await history(world.http, mine) == []
    forwarded = await speak(world.http, mine, "c", content=content(block(secret)))
    await speak(eva, mine, "d", content=content(block(secret)))
    assert (await fetch(eva, secret, message_id=forwarded["id"])).content == b"secret plans"


@pytest.mark.requirement("C7")
@pytest.mark.parametrize(
    "changes",
    [
        {"hash": "sha256:" + "0" * 64},
        {"hash": "sha256:xyz"},
        {"hash": None},
        {"bytes": 1},
        {"bytes": "9"},
        {"bytes": True},
        {"name": "../etc/passwd"},
        {"name": "a\\b"},
        {"name": "evil\u202efdp.exe"},
        {"name": "a\nb"},
        {"name": " "},
        {"name": "x" * 256},
        {"media_type": "pdf"},
        {"media_type": "text/html; charset=x"},
        {"media_type": "text/html\r\nset-cookie: a=b"},
    ],
)
async def test_an_attachment_that_is_not_right_is_refused_and_nothing_is_said(
    world: ServerWorld, changes: Json
) -> None:
    conversation = await world.conversation()
    blob = await upload(world.http, PDF)
    refused = await speak(world.http, conversation, "a", status=422, content=content(block(blob, **changes)))
    expected = "blob_unknown" if changes == {"hash": "sha256:" + "0" * 64} else "invalid_request"
    assert refused["code"] == expected
    assert await history(world.http, conversation) == []


@pytest.mark.requirement("C7")
async def test_patches_write_no_attachments(world: ServerWorld) -> None:
    conversation = await world.conversation()
    blob = await upload(world.http, PDF)
    stream = await open_stream(world.http, conversation, content=content(block(blob)))
    wrong: list[Json] = [
        {"op": "set", "seq": 1, "block": block(blob)},
        {"op": "set", "seq": 1, "block": block(blob, id="other")},
        {"op": "set", "seq": 1, "mask": "block.name", "block": {"id": "file", "name": "x"}},
    ]
    for patch in wrong:
        assert (await emit(world.http, stream["id"], patch, status=422))["code"] == "block_protected"
    grown: list[Json] = [
        {"op": "set", "seq": 1, "block": {"id": "x", "type": "attach"}},
        {"op": "append", "seq": 2, "mask": "block.type", "block": {"id": "x", "type": "ment"}},
    ]
    assert (await emit(world.http, stream["id"], *grown, status=422))["code"] == "block_protected"
    await emit(world.http, stream["id"], set_text(1, "fine"))
    await end(world.http, stream["id"], 2)
    assert (await fetch(world.http, blob)).content == PDF


@pytest.mark.requirement("C9")
async def test_bytes_that_are_other_than_announced_or_too_many_are_not_kept(tmp_path: Path) -> None:
    async with server_world(tmp_path, blob_bytes=2_000_000) as world:
        wrong = await upload(world.http, b"other", 422, hash=hash_of(PDF))
        assert (wrong["code"], wrong["errors"][0]["pointer"]) == ("invalid_request", "/hash")
        assert (await upload(world.http, b"x", 422, hash="md5:1"))["code"] == "invalid_request"
        large = await upload(world.http, b"x" * 2_000_001, 413)
        assert (large["code"], large["context"]) == (
            "limit_exceeded",
            {"limit": "blob_bytes", "max": 2_000_000},
        )

        async def unannounced() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield b"x" * 1_000_000

        assert (await upload(world.http, unannounced(), 413))["code"] == "limit_exceeded"
        assert (await upload(world.http, b"x" * 2_000_000))["bytes"] == 2_000_000
        assert await lying(world) == 1
        listener = await world.actor("operator/echo", ["read"])
        assert (await upload(listener, b"x", 403))["code"] == "forbidden"
        several = await world.actor("operator/*")
        assert (await upload(several, b"x", 422))["code"] == "invalid_request"
        assert (await upload(several, b"x", actor="operator/one"))["bytes"] == 1
        await fetch(world.http, {"hash": "nonsense"}, 404)
        await fetch(world.http, {"hash": "sha256:" + "0" * 64}, 404)


@pytest.mark.requirement("C9")
async def test_the_same_bytes_lie_once_and_stay_for_both(world: ServerWorld) -> None:
    echo = await world.actor("operator/echo")
    first = await upload(world.http, PDF)
    second = await upload(echo, PDF, kind="image/png")
    assert first["hash"] == second["hash"]
    assert await lying(world) == 1
    assert (await fetch(echo, first)).headers["content-type"] == "image/png"
    assert (await fetch(world.http, first)).headers["content-type"] == "application/pdf"


@pytest.mark.requirement("C10")
async def test_what_no_message_has_goes_after_a_while_and_the_rest_stays(tmp_path: Path) -> None:
    async with server_world(tmp_path, blob_grace_seconds=60.0) as world:
        await sweep_after_grace(world)


async def sweep_after_grace(world: ServerWorld) -> None:
    conversation = await world.conversation()
    wanted, unwanted = await upload(world.http, b"wanted"), await upload(world.http, b"unwanted")
    await speak(world.http, conversation, "a", content=content(block(wanted)))
    lost = new_place(world.clock.now_ms(), "lost")
    writer = await world.server.blobs.begin(lost)
    await writer.write(b"stored, then the server died")
    await writer.finish()
    await world.advance(50)
    await world.server.care.blobs.sweep()
    await fetch(world.http, unwanted)
    await world.advance(20)
    await world.server.care.blobs.sweep()
    await fetch(world.http, unwanted, 404)
    assert (await fetch(world.http, wanted)).content == b"wanted"
    assert await lying(world) == 1
    await upload(world.http, b"unwanted")
    assert (await fetch(world.http, unwanted)).content == b"unwanted"


@pytest.fixture(params=["files", "tables"])
def store(request: pytest.FixtureRequest, world: ServerWorld, tmp_path: Path) -> BlobStore:
    if request.param == "files":
        return FileBlobs(tmp_path / "blobs" / "deep")
    return TableBlobs(world.server.commits, world.clock)


@pytest.mark.requirement("C9")
async def test_a_store_gives_back_what_it_was_given(store: BlobStore) -> None:
    body = bytes(range(256)) * 4096 + b"tail"
    for number, whole in enumerate((body, b"", b"x")):
        place = new_place(number, "blb_" + "0" * 32)
        writer = await store.begin(place)
        for begun in range(0, len(whole), 70_001):
            await writer.write(whole[begun : begun + 70_001])
        await writer.finish()
        assert b"".join([part async for part in store.read(place)]) == whole
        await store.remove(place)
        await store.remove(place)
    dropped = await store.begin(new_place(9, "blb_" + "1" * 32))
    await dropped.write(body)
    await dropped.discard()
    await dropped.discard()
    assert await store.places(2**52) == []


@pytest.mark.requirement("C7")
async def test_the_client_uploads_files_and_iterators_and_downloads_in_parts(
    world: ServerWorld, tmp_path: Path
) -> None:
    file = tmp_path / "plan.pdf"
    file.write_bytes(PDF)

    async def given() -> AsyncIterator[bytes]:
        yield PDF[:100]
        yield PDF[100:]

    async with Loop(InProcessTransport(world.server.asgi, world.server.open_link, world.admin_token)) as loop:
        info = await loop.create_conversation("files")
        blob = await loop.upload(file)
        assert blob == Blob(hash_of(PDF), len(PDF), "application/pdf")
        assert await loop.upload(given(), media_type="application/pdf", expected_hash=blob.hash) == blob
        said = await loop.conversation(info.id).speak(content(blob.to_block("file", "plan.pdf")), key="a")
        async with loop.download(blob.hash, message_id=said.id) as parts:
            assert b"".join([part async for part in parts]) == PDF
        with pytest.raises(NotFound):
            async with loop.download("sha256:none"):
                pass
        with pytest.raises(InvalidRequest):
            await loop.upload(b"other", expected_hash=blob.hash)
