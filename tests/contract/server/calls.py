"""Short words for the calls that server tests make. Each asserts its status and returns the JSON answer."""

from __future__ import annotations

from typing import Any

import httpx

from lineloop.protocol.actors import Actor

Json = dict[str, Any]


def wire(actor: str) -> Json:
    return Actor.parse(actor).to_wire()


async def speak(
    client: httpx.AsyncClient, conversation: str, key: str, text: str = "hi", status: int = 201, **fields: Any
) -> Json:
    """`target` and `actor` may be given as KIND/KEY."""
    body: Json = {"key": key, "text": text, **fields}
    if body["text"] is None or "content" in fields:
        del body["text"]
    for name in ("target", "actor"):
        if isinstance(body.get(name), str):
            body[name] = wire(body[name])
    answer = await client.post(f"/v1/conversations/{conversation}/messages", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def open_stream(client: httpx.AsyncClient, conversation: str, key: str = "s", **fields: Any) -> Json:
    return await speak(client, conversation, key, None, stream=True, **fields)  # pyright: ignore[reportArgumentType]


def set_text(seq: int, text: str) -> Json:
    return {"op": "set", "seq": seq, "block": {"id": "text", "type": "text", "content": text}}


def append_text(seq: int, text: str) -> Json:
    return {"op": "append", "seq": seq, "mask": "block.content", "block": {"id": "text", "content": text}}


async def emit(client: httpx.AsyncClient, message: str, *patches: Json, status: int = 202) -> Json:
    answer = await client.post(f"/v1/messages/{message}/patches", json={"patches": list(patches)})
    assert answer.status_code == status, answer.text
    return answer.json()


async def end(client: httpx.AsyncClient, message: str, seq: int, status: int = 202, **fields: Any) -> Json:
    answer = await client.post(f"/v1/messages/{message}/end", json={"seq": seq, **fields})
    assert answer.status_code == status, answer.text
    return answer.json()


async def get(client: httpx.AsyncClient, path: str, status: int = 200, **params: Any) -> Json:
    answer = await client.get(f"/v1{path}", params=params)
    assert answer.status_code == status, answer.text
    return answer.json()


async def poll(client: httpx.AsyncClient, conversation: str, status: int = 200, **fields: Any) -> Json:
    answer = await client.post(f"/v1/conversations/{conversation}/poll", json=fields)
    assert answer.status_code == status, answer.text
    return answer.json()


async def commit(
    client: httpx.AsyncClient, conversation: str, position: int, status: int = 204, **fields: Any
) -> Json:
    answer = await client.post(
        f"/v1/conversations/{conversation}/commit", json={"position": position, **fields}
    )
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else {}


async def history(client: httpx.AsyncClient, conversation: str, **params: Any) -> list[Json]:
    return (await get(client, f"/conversations/{conversation}/messages", **params))["items"]


def text_of(message: Json) -> str:
    return "".join(block.get("content", "") for block in message["content"]["blocks"])


def texts(messages: list[Json]) -> list[str]:
    return [text_of(message) for message in messages]
