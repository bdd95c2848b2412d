"""What a model server says it serves: the list of the protocol, asked for briefly and believed with care.

Decides what counts as such a list, so that another program on the port is not taken for a model server, and
which refusal each fault is. httpx is imported when somebody asks: a start needs none of this.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from lineloop.kit import json
from lineloop.kit.clock import Clock, with_timeout
from lineloop.protocol.errors import ErrorCode, LoopError

if TYPE_CHECKING:
    import httpx

    from lineloop.harness.model_server import Endpoint

MAX_LIST_BYTES = 4 * 1024 * 1024
MAX_MODELS = 1000
MAX_NAME_CHARS = 100
# Every question has a bound of its own, which is shorter.
_SILENCE_SECONDS = 30.0
# Models that only embed cannot answer; servers list them among the others.
_EMBEDS = ("embed", "bge-", "rerank")


class ModelLists:
    """Asks servers for their lists."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def look(self, place: Endpoint, seconds: float) -> list[str] | None:
        """The models that can answer, or None when no model server answers there in time."""
        await _library()
        try:
            names = await with_timeout(self._clock, seconds, self._names(place))
        except (LoopError, TimeoutError):
            return None
        return [name for name in names if not any(word in name.lower() for word in _EMBEDS)]

    async def verify(self, place: Endpoint, name: str, seconds: float) -> None:
        """Returns when the server has the model, or keeps no list that could say.

        Raises LoopError: model_unauthorized, model_unreachable, model_overloaded, model_unknown,
        model_answer_invalid.
        """
        await _library()
        try:
            await with_timeout(self._clock, seconds, self._verify(place, name))
        except TimeoutError as error:
            raise _unreachable() from error

    async def _verify(self, place: Endpoint, name: str) -> None:
        async with _client(place) as client:
            status, body = await _get(client, f"{place.base_url}/models")
            if status in (404, 405, 501):
                return
            names = _list_of(_good(status, body))
            if name in names or f"{name}:latest" in names:
                return
            # A list may leave out what has another name or is old.
            status, _ = await _get(client, f"{place.base_url}/models/{quote(name, safe='')}")
            if status != 200:
                raise LoopError(f"the server has no model {name!r}", code=ErrorCode.MODEL_UNKNOWN)

    async def _names(self, place: Endpoint) -> list[str]:
        async with _client(place) as client:
            return _list_of(_good(*await _get(client, f"{place.base_url}/models")))


async def _library() -> None:
    """Loaded in a thread and before the time counts: on a slow machine that takes as long as the answer."""
    await asyncio.to_thread(importlib.import_module, "httpx")


def _client(place: Endpoint) -> httpx.AsyncClient:
    import httpx

    headers = {"authorization": f"Bearer {place.key}"} if place.key else {}
    secure = place.base_url.startswith("https:")
    return httpx.AsyncClient(
        headers=headers,
        trust_env=not place.is_local,
        follow_redirects=False,
        timeout=_SILENCE_SECONDS,
        verify=secure,
    )


async def _get(client: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
    """Status and body. Raises LoopError model_unreachable, model_answer_invalid."""
    import httpx

    try:
        async with client.stream("GET", url) as answer:
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MAX_LIST_BYTES:
                    raise _no_list()
            return answer.status_code, bytes(body)
    except httpx.HTTPError as error:
        raise _unreachable() from error


def _good(status: int, body: bytes) -> bytes:
    if status in (401, 403):
        raise LoopError("the server does not accept the key", code=ErrorCode.MODEL_UNAUTHORIZED)
    if status == 429 or status >= 500:
        raise LoopError("the server has too much to do or failed", code=ErrorCode.MODEL_OVERLOADED)
    if status != 200:
        raise _no_list()
    return body


def _list_of(body: bytes) -> list[str]:
    """The names in a list of the protocol; without any model `data` may be null."""
    try:
        value = json.loads(body)
    except ValueError as error:
        raise _no_list() from error
    if not isinstance(value, dict) or "data" not in value or value.get("object") != "list":  # pyright: ignore[reportUnknownMemberType]
        raise _no_list()
    items: Any = cast("dict[str, Any]", value)["data"] or []
    if not isinstance(items, list):
        raise _no_list()
    names = [cast("dict[str, Any]", item).get("id") for item in items if isinstance(item, dict)]
    return [name for name in names if isinstance(name, str) and _is_name(name)][:MAX_MODELS]


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_CHARS and name == name.strip() and name.isprintable()


def _unreachable() -> LoopError:
    return LoopError("the model's server cannot be reached", code=ErrorCode.MODEL_UNREACHABLE)


def _no_list() -> LoopError:
    return LoopError("what answers there is no model server", code=ErrorCode.MODEL_ANSWER_INVALID)
