"""A server that is told to stop (SIGTERM), with everything open that can be: from outside, real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.blackbox.system import System
from tests.faults.load.servers import ServerProcess

from lineloop.client.conversation import Conversation
from lineloop.client.http import HttpTransport
from lineloop.client.loop import Loop
from lineloop.client.sse import MessageEvent
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import ConnectionLost
from lineloop.testing.waiting import until

pytestmark = pytest.mark.slow
LONGEST_SECONDS = 10.0
PERSON = Actor("user", "local")


class Front:
    """One address before several servers: a connection goes to the first one that takes it."""

    def __init__(self, urls: list[str]) -> None:
        self._ports = [urlsplit(url).port for url in urls]
        self.url = ""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Front]:
        async with Tasks("front") as tasks:

            def took(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                tasks.spawn(self._taken(reader, writer), name="connection")

            serving = await asyncio.start_server(took, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}"
            try:
                yield self
            finally:
                serving.close()

    async def _taken(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            for port in self._ports:
                with suppress(OSError):
                    inner_reader, inner = await asyncio.open_connection("127.0.0.1", port)
                    ends.append(inner)
                    await asyncio.gather(_copied(reader, inner), _copied(inner_reader, writer))
                    return
        finally:
            for end in ends:
                end.transport.abort()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    writer.close()


async def operator_token(admin: Loop, place: str) -> str:
    """Of an operator that takes part."""
    echo = Actor("operator", "echo")
    made = await admin.request("POST", "/v1/tokens", json={"actor": echo.to_wire()})
    await admin.conversation(place).invite(echo)
    return made["token"]


async def view(loop: Loop, place: str, seen: list[str]) -> None:
    async with aclosing(loop.conversation(place).stream()) as events:
        async for event in events:
            seen += [event.message.text] if isinstance(event, MessageEvent) else []


class Watched:
    """What a stopping server tells a stream, a long poll and a link that hold on to it."""

    def __init__(self, url: str, token: str, conversation: str, question: str) -> None:
        self._url, self._token = url, token
        self._http = httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=20, trust_env=False
        )
        self._conversation, self._question = conversation, question
        self.opened = [asyncio.Event(), asyncio.Event()]
        self.stream = ""
        self.polled: httpx.Response | None = None
        self.drained: dict[str, Any] = {}

    async def hold(self) -> None:
        async with Tasks("watched") as tasks, self._http:
            every = (self._streaming(), self._polling(), self._linked())
            running = [tasks.spawn(one, name=one.__name__) for one in every]
            await asyncio.gather(*running)

    async def _streaming(self) -> None:
        async with self._http.stream("GET", f"/v1/conversations/{self._conversation}/stream") as answer:
            async for text in answer.aiter_text():
                self.stream += text
                self.opened[0].set()

    async def _polling(self) -> None:
        self.polled = await self._http.get(f"/v1/questions/{self._question}?wait_ms=30000")

    async def _linked(self) -> None:
        transport = HttpTransport(self._url, self._token)
        link = await transport.open_link()
        self.opened[1].set()
        with suppress(ConnectionLost):
            while True:  # the link is told, and stays nevertheless
                frame = await link.receive()
                self.drained = frame.get("drain", self.drained)
        await transport.close()

    def assert_told(self) -> None:
        assert self.stream.endswith('event: drain\nretry: 500\ndata: {"retry_ms":500}\n\n')
        assert self.polled is not None
        assert (self.polled.json()["state"], self.polled.headers["retry-after"]) == ("pending", "1")
        assert self.drained == {"retry_ms": 500}


class Writer:
    """Speaks one message after the other; what was acknowledged is remembered."""

    def __init__(self, loop: Loop, conversation: str, name: str) -> None:
        self._name = name
        self._conversation: Conversation = loop.conversation(conversation)
        self.acknowledged: list[str] = []
        self.refused: list[str] = []

    async def write(self) -> None:
        for number in count():
            text = f"{self._name} {number}"
            try:
                await self._conversation.speak(text, key=text)
            except ConnectionLost:
                self.refused.append(text)
            else:
                self.acknowledged.append(text)
            await asyncio.sleep(0.05)


async def texts_of(loop: Loop, conversation: str) -> list[str]:
    page = await loop.conversation(conversation).read(limit=500)
    assert page.next is None
    return [one.text for one in page.items]


async def asked(loop: Loop, conversation: str, who: str) -> str:
    handle = await loop.human.ask(
        conversation, "Go on?", to=PERSON, effect_key=who, allow_other=True, timeout_seconds=600
    )
    return handle.id


async def unready_while_alive(url: str) -> None:
    """Returns when /readyz refuses; /healthz answers before and after."""
    async with httpx.AsyncClient(base_url=url, timeout=5, trust_env=False) as http:

        async def refuses() -> bool:
            return (await http.get("/readyz")).status_code == 503

        assert (await http.get("/healthz")).status_code == 200
        await until(refuses)
        assert (await http.get("/healthz")).status_code == 200


async def stopped(stop: Callable[[], int], url: str) -> None:
    """SIGTERM, and a clean end in time; meanwhile the server is alive and not ready."""
    begun = time.monotonic()
    ending = asyncio.to_thread(stop)
    _, code = await asyncio.gather(unready_while_alive(url), ending)
    assert code == 0
    assert time.monotonic() - begun < LONGEST_SECONDS


async def spawned(stack: AsyncExitStack, *work: Coroutine[Any, Any, None]) -> None:
    tasks = await stack.enter_async_context(Tasks("test"))
    for one in work:
        tasks.spawn(one, name="work")


@pytest.mark.requirement("SV2", "L133")
async def test_a_stopping_replica_sends_everybody_on_and_loses_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    servers = [ServerProcess(tmp_path / name, "--database", postgres_url) for name in ("one", "two")]
    try:
        await servers[0].start()
        await servers[1].start()
        async with AsyncExitStack() as stack:
            front = await stack.enter_async_context(Front([one.url for one in servers]).open())
            admin = await stack.enter_async_context(
                await Loop.connect(servers[1].url, servers[1].admin_token)
            )
            place = (await admin.create_conversation("drained")).id
            token = await operator_token(admin, place)
            echo = await stack.enter_async_context(await Loop.connect(front.url, token))
            linked = await stack.enter_async_context(await Loop.connect(front.url, token))
            question = await asked(echo, place, "first")
            told = Watched(servers[0].url, token, place, question)
            holding = asyncio.ensure_future(told.hold())
            seen: list[str] = []
            answered = asyncio.ensure_future(echo.human.question(question).wait())

            plain, pushed = Writer(echo, place, "plain"), Writer(linked, place, "pushed")
            await linked.link().start()
            await spawned(stack, view(echo, place, seen), plain.write(), pushed.write())
            await asyncio.gather(*(one.wait() for one in told.opened))
            await until(lambda: len(plain.acknowledged) > 3)
            await stopped(servers[0].stop, servers[0].url)
            await holding
            told.assert_told()
            assert linked.link().state.epoch
            for writer in (plain, pushed):
                before = len(writer.acknowledged)
                await until(lambda writer=writer, before=before: len(writer.acknowledged) > before + 3, 20)
            await admin.request(
                "POST", f"/v1/questions/{question}/answer", json={"reply_to_id": question, "value": "yes"}
            )
            assert (await asyncio.wait_for(answered, 20)).value == "yes"
            await admin.conversation(place).speak("the last words", key="last")
            await until(lambda: "the last words" in seen, 20)
            stored = await texts_of(admin, place)
            await until(lambda: linked.link().connected)
            for writer in (plain, pushed):
                assert [one for one in writer.acknowledged if stored.count(one) != 1] == []
                assert writer.refused == []
    finally:
        for one in servers:
            one.close()


@pytest.mark.requirement("SV2")
async def test_an_embedded_system_says_goodbye_too(tmp_path: Path) -> None:
    system = System(tmp_path)
    try:
        system.start()
        url, token = system.ready["server_url"], system.ready["admin_token"]
        async with await Loop.connect(url, token) as admin:
            place = (await admin.create_conversation("drained")).id
            question = await asked(admin, place, "first")
            told = Watched(url, await operator_token(admin, place), place, question)
            holding = asyncio.ensure_future(told.hold())
            await asyncio.gather(*(one.wait() for one in told.opened))
            writer = Writer(admin, place, "plain")
            writing = asyncio.ensure_future(writer.write())
            await until(lambda: len(writer.acknowledged) > 3)
            await stopped(system.stop, url)
            await holding
            writing.cancel()
            told.assert_told()
        system.start()
        async with await Loop.connect(system.ready["server_url"], token) as admin:
            stored = await texts_of(admin, place)
            assert [one for one in writer.acknowledged if stored.count(one) != 1] == []
    finally:
        system.close()
