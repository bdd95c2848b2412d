"""A model server of a test: OpenAI's chat completions over real HTTP on loopback, quirks included.

    with fake_model_server(starts_a_focus) as server:
        server.base_url, server.requests

What it answers is a function from the request's body to a Reply. It runs in threads of its own, so that tests
with and without an event loop use it alike.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lineloop.kit import json
from lineloop.kit.records import record

Json = dict[str, Any]

KEY_HINT = "Incorrect API key provided: "


@record
class Reply:
    """One answer. `pieces` are its words as they are streamed, `calls` (name, arguments as text).

    `status` other than 200 is an error with `message`. `raw` goes out instead of everything else. With
    `cut` the connection ends after the words. `index_zero`: every call is numbered 0. `usage` False: none is
    told. `torn`: the bytes are sent in halves of characters. `redirect` leads elsewhere.
    """

    pieces: Sequence[str] = ()
    calls: Sequence[tuple[str, str]] = ()
    status: int = 200
    message: str = "no"
    error_code: str | None = None
    raw: bytes | None = None
    cut: bool = False
    index_zero: bool = False
    usage: bool = True
    torn: bool = False
    redirect: str | None = None

    def but(self, **changes: Any) -> Reply:
        return replace(self, **changes)


Answer = Callable[[Json], Reply]


@dataclass
class FakeModelServer:
    """What was asked, and of whom. `hold` makes answers wait until it is set again."""

    answer: Answer
    base_url: str
    models: Sequence[str]
    key: str | None
    requests: list[Json] = field(default_factory=list[Json])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    paths: list[str] = field(default_factory=list[str])
    open: threading.Event = field(default_factory=threading.Event)

    @property
    def asked(self) -> int:
        """How many responses were asked for."""
        return len(self.requests)


@contextmanager
def fake_model_server(
    answer: Answer, *, models: Sequence[str] = ("small",), key: str | None = None
) -> Generator[FakeModelServer]:
    """A running server; with `key` it takes nothing else."""
    fake = FakeModelServer(answer, "", models, key)
    fake.open.set()

    class Handler(_Handler):
        world = fake

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        fake.base_url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            fake.open.set()
            http.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: FakeModelServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        """Tests read their own output only."""

    def do_GET(self) -> None:
        self.world.paths.append(self.path)
        if not self._let_in():
            return
        if self.path == "/v1/models":
            self._whole(200, {"object": "list", "data": [{"id": name} for name in self.world.models]})
        else:
            self._whole(404, {"error": {"message": "no such page"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.world.paths.append(self.path)
        self.world.headers.append({name.lower(): value for name, value in self.headers.items()})
        if not self._let_in():
            return
        self.world.requests.append(body)
        reply = self.world.answer(body)
        self.world.open.wait(30)
        try:
            self._reply(reply)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _let_in(self) -> bool:
        wanted, given = self.world.key, self.headers.get("authorization", "")
        if wanted is None or given == f"Bearer {wanted}":
            return True
        self._whole(401, {"error": {"message": KEY_HINT + given.removeprefix("Bearer ")}})
        return False

    def _whole(self, status: int, value: Any, content_type: str = "application/json") -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _reply(self, reply: Reply) -> None:
        if reply.redirect is not None:
            self.send_response(307)
            self.send_header("location", reply.redirect)
            self.send_header("content-length", "0")
            self.end_headers()
        elif reply.raw is not None:
            self._whole(200, reply.raw, "text/event-stream")
        elif reply.status != 200:
            self._whole(reply.status, {"error": {"message": reply.message, "code": reply.error_code}})
        else:
            self._stream(reply)

    def _stream(self, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in reply.pieces:
            self._event({"choices": [{"index": 0, "delta": {"content": piece}}]}, torn=reply.torn)
        if reply.cut:
            self.close_connection = True
            self.connection.close()
            return
        for index, (name, arguments) in enumerate(reply.calls):
            self._call(0 if reply.index_zero else index, index, name, arguments, torn=reply.torn)
        reason = "tool_calls" if reply.calls else "stop"
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if reply.usage:
            usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
            self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _call(self, shown: int, index: int, name: str, arguments: str, *, torn: bool) -> None:
        """The head with the name, then the arguments in two halves, as most servers do."""
        head = {"index": shown, "id": f"call_{index}", "type": "function", "function": {"name": name}}
        self._event({"choices": [{"index": 0, "delta": {"tool_calls": [head]}}]})
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            piece = {"index": shown, "function": {"arguments": part}}
            self._event({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}, torn=torn)

    def _event(self, value: Json, *, torn: bool = False) -> None:
        whole = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "small", **value}
        data = b"data: " + json.dumps(whole).encode() + b"\n\n"
        for start in range(0, len(data), 1 if torn else len(data)):
            self._chunk(data[start : start + (1 if torn else len(data))])

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def results_of(body: Json) -> list[Json]:
    """The function results at the end of what a model was sent."""
    found: list[Json] = []
    for message in reversed(body["messages"]):
        if message["role"] != "tool":
            break
        found.insert(0, json.loads(message["content"]))
    return found


def starts_a_focus(body: Json) -> Reply:
    """A model that starts a focus of one minute called tea, and says it runs only when it was started."""
    results = results_of(body)
    if not results:
        names = [function["function"]["name"] for function in body.get("tools", ())]
        start = next((name for name in names if name.endswith("__pomodoro_start")), "no_such_function")
        return Reply(calls=((start, '{"minutes": 1, "label": "tea"}'),))
    (result,) = results
    if result["status"] == "started":
        return Reply(("Started: ", "tea 🍵, ", "one minute; it is running."))
    return Reply((f"It did not start: {result.get('code')}.",))
