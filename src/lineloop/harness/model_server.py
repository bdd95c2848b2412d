"""One streamed request to a model's server, through the `openai` package.

Decides how the package is loaded (when it is first needed, in a thread), what a server on this machine is
spared, and which public failure each fault is. What is asked and how pieces become a response is decided in
model_prompt.py and model_stream.py; whether it is tried again, by the runner.
"""

from __future__ import annotations

import asyncio
import importlib
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, cast

from lineloop.harness.adapters.port import Json, RunFailed
from lineloop.harness.model_stream import NotAResponse, ResponsePieces
from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode

LIBRARY = "openai"
CONNECT_SECONDS = 10.0
# A local server may load the model before its first word.
SILENCE_SECONDS = 300.0
MAX_REASON_CHARS = 300
_KEPT_HEADERS = frozenset(
    {"host", "connection", "accept", "accept-encoding", "content-type", "content-length", "authorization"}
)
_NO_KEY = "none"
# What providers call a request that waiting does not help.
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


@record
class Endpoint:
    """Where the models of a family are reached now. `is_local` = on this machine or named by the person as
    such: no proxy, no foreign headers.
    """

    base_url: str
    key: str | None
    is_local: bool


@record
class ModelRequest:
    """What is asked: the model's own name, messages and functions in the shapes of chat completions."""

    model: str
    messages: Sequence[Json]
    functions: Sequence[Json] = ()

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": list(self.messages)}
        if self.functions:
            body["tools"] = list(self.functions)
        return body


class Words:
    """Words on the way from a reader to whoever stores them: what came meanwhile is taken in one piece."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._news = asyncio.Event()
        self._ended = False

    def add(self, words: str) -> None:
        if words:
            self._pieces.append(words)
            self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        while self._pieces or not self._ended:
            await self._news.wait()
            self._news.clear()
            words = "".join(self._pieces)
            self._pieces.clear()
            if words:
                yield words


class ModelServer:
    """Asks the servers of one family. Holds nothing between requests but what TLS needs."""

    def __init__(self) -> None:
        self._trust: ssl.SSLContext | None = None

    async def ask(
        self, endpoint: Endpoint, request: ModelRequest, words: Words, *, seconds: float
    ) -> ResponsePieces:
        """The whole response; its words go to `words` as they come, ended in any case. `seconds` are left of
        the Run.

        Raises RunFailed: unsupported, or a code `model_…`.
        """
        try:
            library = await _library()
            return await self._stream(library, endpoint, request, words, seconds)
        except (RunFailed, asyncio.CancelledError):
            raise
        except Exception as error:
            raise failure_of(error, endpoint, request.model) from None
        finally:
            words.end()

    async def _stream(
        self, library: Any, endpoint: Endpoint, request: ModelRequest, words: Words, seconds: float
    ) -> ResponsePieces:
        pieces = ResponsePieces()
        client = library.AsyncOpenAI(
            api_key=endpoint.key or _NO_KEY,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=library.Timeout(min(SILENCE_SECONDS, max(seconds, 1.0)), connect=CONNECT_SECONDS),
            http_client=await self._http(library, endpoint),
        )
        async with client:
            stream = await client.chat.completions.create(
                **request.body(), stream=True, stream_options={"include_usage": True}
            )
            async with aclosing(aiter(stream)) as chunks:
                async for chunk in chunks:
                    words.add(pieces.take(_plain(chunk)))
            await stream.close()
        words.add(pieces.rest())
        if not pieces.ended:
            raise RunFailed(
                ErrorCode.MODEL_UNREACHABLE, "The model's server broke off in the middle.", retryable=True
            )
        return pieces

    async def _http(self, library: Any, endpoint: Endpoint) -> Any:
        """A client that follows no redirects: they would carry words to where nobody sent them."""
        secure = endpoint.base_url.startswith("https:")
        if secure and self._trust is None:
            self._trust = await asyncio.to_thread(ssl.create_default_context)
        return library.DefaultAsyncHttpxClient(
            verify=self._trust if secure else False,
            follow_redirects=False,
            trust_env=not endpoint.is_local,
            event_hooks={"request": [_drop_foreign_headers]} if endpoint.is_local else {},
        )


async def read_along(
    server: ModelServer, endpoint: Endpoint, request: ModelRequest, say: Any, *, seconds: float
) -> ResponsePieces:
    """Asks, and says the words while more of them come. Raises RunFailed, and whatever `say` raises."""
    words = Words()

    async def read() -> ResponsePieces | RunFailed:
        try:
            return await server.ask(endpoint, request, words, seconds=seconds)
        except RunFailed as failure:
            return failure

    async with Tasks("model") as tasks:
        reading = tasks.spawn(read(), name=request.model)
        async for piece in words:
            await say(piece)
        outcome = await reading
    if isinstance(outcome, RunFailed):
        raise outcome
    return outcome


def failure_of(error: Exception, endpoint: Endpoint, model: str) -> RunFailed:
    """The public failure of a fault: no key, no address, nothing of what a provider says about a key."""
    if isinstance(error, NotAResponse):
        return RunFailed(ErrorCode.MODEL_ANSWER_INVALID, f"The model's answer cannot be read: {error}.")
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _refusal(status, error, endpoint, model)
    name = {kind.__name__ for kind in type(error).__mro__}
    if "APIConnectionError" in name:
        return RunFailed(ErrorCode.MODEL_UNREACHABLE, "The model's server cannot be reached.", retryable=True)
    if "APIError" in name and "APIResponseValidationError" not in name:
        reason = _reason(error, endpoint)
        return RunFailed(ErrorCode.MODEL_OVERLOADED, f"The model's server failed: {reason}", retryable=True)
    return RunFailed(ErrorCode.MODEL_ANSWER_INVALID, "The model's answer cannot be read.")


def _refusal(status: int, error: Exception, endpoint: Endpoint, model: str) -> RunFailed:
    if status in (401, 403):
        return RunFailed(ErrorCode.MODEL_UNAUTHORIZED, "The model's server does not accept the key.")
    if status == 404:
        return RunFailed(ErrorCode.MODEL_UNKNOWN, f"The model's server has no model {model!r}.")
    reason = _reason(error, endpoint)
    if getattr(error, "code", None) in _SPENT:
        return RunFailed(ErrorCode.MODEL_REFUSED, f"The provider's limit is used up: {reason}")
    if status in (408, 409, 425, 429) or status >= 500:
        words = "has too much to do" if status == 429 else f"failed (HTTP {status})"
        return RunFailed(ErrorCode.MODEL_OVERLOADED, f"The model's server {words}.", retryable=True)
    return RunFailed(ErrorCode.MODEL_REFUSED, f"The model's server refused the request: {reason}")


def _reason(error: Exception, endpoint: Endpoint) -> str:
    """The server's own words, shortened, without the key."""
    body = getattr(error, "body", None)
    said = cast("Json", body).get("message") if isinstance(body, dict) else None
    words = " ".join(str(said or "it gave no reason").split())
    if endpoint.key:
        words = words.replace(endpoint.key, "(hidden)")
    return words[:MAX_REASON_CHARS]


async def _library() -> Any:
    """The package, loaded once. Raises RunFailed unsupported where it is not installed."""

    def load() -> Any:
        importlib.import_module(f"{LIBRARY}.resources.chat.completions")
        return importlib.import_module(LIBRARY)

    try:
        return await asyncio.to_thread(load)
    except ImportError as error:
        raise RunFailed(
            ErrorCode.UNSUPPORTED, "Models need the extra: pip install 'lineloop[models]'."
        ) from error


def _plain(chunk: Any) -> Any:
    """A piece as plain JSON, also when it is not what the package expects."""
    dump = getattr(chunk, "model_dump", None)
    return chunk if dump is None else dump(warnings=False)


async def _drop_foreign_headers(request: Any) -> None:
    """What the package adds from its own environment variables is for its provider only."""
    for name in list(request.headers):
        if name.lower() not in _KEPT_HEADERS:
            del request.headers[name]
