"""Operators and programs over a real port: killed with -9 at a commit, stopped, and the talking example."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from lineloop import Operator, Turn
from lineloop.client import Loop
from lineloop.client.conversation import Conversation
from lineloop.operators.loading import load_operator
from lineloop.operators.worker import OperatorWorker, run_operator
from lineloop.protocol.actors import Actor
from lineloop.server.app import Server
from lineloop.server.settings import ServerSettings
from lineloop.testing import until

pytestmark = pytest.mark.slow

ADMIN_TOKEN = "admin-token-of-the-test"

# Word for word as the documentation shows it.
ECHO = """
from lineloop import Operator, Result, Turn

operator = Operator("echo", display_name="Echo")

@operator.reconcile
async def reconcile(turn: Turn) -> Result | None:
    inbox = await turn.poll()
    for message in inbox: await turn.speak(f"You said: {message.text}", key=f"{message.id}/answer", reply_to=message.id)
    await turn.commit(inbox.position)
"""  # noqa: E501

RUN = """
import asyncio, sys
from lineloop import Loop
from lineloop.kit.faults import Faults
from lineloop.operators.loading import load_operator
from lineloop.operators.worker import run_operator
from lineloop.protocol.fault_sites import FaultSite

async def main(url, token, path, plan):
    async with await Loop.connect(url, token, faults=Faults(FaultSite, plan)) as loop:
        await run_operator(load_operator(path), loop)

asyncio.run(main(*sys.argv[1:]))
"""


class World:
    """A server on a real port, a person, and operator processes."""

    def __init__(self, url: str, person: Loop, token: str, conversation: Conversation, script: Path) -> None:
        self.url = url
        self.person = person
        self.token = token
        self.conversation = conversation
        self.script = script
        self.processes: list[asyncio.subprocess.Process] = []

    async def run(self, plan: str = "") -> asyncio.subprocess.Process:
        arguments = (sys.executable, "-c", RUN, self.url, self.token, str(self.script), plan)
        process = await asyncio.create_subprocess_exec(*arguments)
        self.processes.append(process)
        return process

    async def say(self, text: str) -> None:
        await self.conversation.speak(text, key=text, target=Actor("operator", "echo"))

    async def said_by_echo(self) -> list[str]:
        page = await self.conversation.read(limit=100)
        return [message.text for message in page.items if message.actor.key == "echo"]


@asynccontextmanager
async def serving(server: Server) -> AsyncGenerator[str, None]:
    config = uvicorn.Config(server.asgi, port=0, log_config=None, lifespan="off", ws="websockets-sansio")
    web = uvicorn.Server(config)
    task = asyncio.get_running_loop().create_task(web.serve())
    await until(lambda: web.started)
    try:
        yield f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}"
    finally:
        web.should_exit = True
        await task


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    script = tmp_path / "my_operator.py"
    script.write_text(ECHO)
    server = Server(ServerSettings(tmp_path / "server.db", admin_token=ADMIN_TOKEN))
    await server.start()
    async with serving(server) as url, await Loop.connect(url, ADMIN_TOKEN) as person:
        made = await person.request("POST", "/v1/tokens", json={"actor": {"kind": "operator", "key": "echo"}})
        info = await person.create_conversation("test")
        world = World(url, person, made["token"], person.conversation(info.id), script)
        try:
            yield world
        finally:
            for process in world.processes:
                if process.returncode is None:
                    process.kill()
                await process.wait()
            await server.drain(1.0)
            await server.close()


@pytest.mark.requirement("L50")
@pytest.mark.parametrize(
    "site",
    ["operator.turn.speak.after", "operator.turn.commit.before", "operator.turn.commit.after"],
)
async def test_a_killed_echo_operator_answers_no_message_twice(world: World, site: str) -> None:
    killed = await world.run(f"{site}:kill")
    await world.say("one")
    assert await asyncio.wait_for(killed.wait(), 20) == -9
    assert await world.said_by_echo() == ["You said: one"]
    await world.run()
    await world.say("two")

    async def both() -> bool:
        return len(await world.said_by_echo()) >= 2

    await until(both, 20)
    # The third answer shows that everything before it was settled.
    await world.say("three")

    async def all_three() -> bool:
        return len(await world.said_by_echo()) >= 3

    await until(all_three, 20)
    assert await world.said_by_echo() == ["You said: one", "You said: two", "You said: three"]


async def test_a_stopped_operator_ends_by_itself_and_leaves_the_loop_usable(world: World) -> None:
    stop = asyncio.Event()
    async with await Loop.connect(world.url, world.token) as loop:
        running = asyncio.get_running_loop().create_task(
            run_operator(load_operator(str(world.script)), loop, stop=stop)
        )
        await world.say("one")

        async def answered() -> bool:
            return await world.said_by_echo() == ["You said: one"]

        await until(answered, 20)
        stop.set()
        await asyncio.wait_for(running, 10)
        assert (await loop.conversation(world.conversation.id).info()).id == world.conversation.id


async def test_the_talking_example_prints_the_answer_it_watches(world: World) -> None:
    made = await world.person.request(
        "POST", "/v1/tokens", json={"actor": {"kind": "operator", "key": "assistant"}}
    )
    assistant = Operator("assistant", display_name="Assistant")

    @assistant.reconcile
    async def reconcile(turn: Turn) -> None:
        inbox = await turn.poll()
        for message in inbox:
            answer = await turn.speak(key=f"{message.id}/answer", reply_to=message.id, stream=True)
            for word in ("You ", "said: ", message.text):
                await answer.write(word)
            await answer.end()
        await turn.commit(inbox.position)

    talk = Path(__file__).parents[3] / "examples/talk.py"
    async with await Loop.connect(world.url, made["token"]) as loop, OperatorWorker(assistant, loop):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(talk), world.url, ADMIN_TOKEN, "tea, please"),
            stdout=asyncio.subprocess.PIPE,
        )
        world.processes.append(process)
        printed, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0
    assert printed.decode().endswith("You said: tea, please\n")
