"""The person's side against a real server: what is seen is kept, what is said arrives once."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.device_apps.apps_world import AppsWorld, apps_world

from lineloop.client.in_process import InProcessTransport
from lineloop.device.containers.port import SessionContext
from lineloop.device.decide.person import content_envelope
from lineloop.device.person.side import PersonSide
from lineloop.device.person.streams import BeganAnew
from lineloop.kit.database import Tx
from lineloop.kit.faults import Faults
from lineloop.protocol.envelopes import check_envelope
from lineloop.protocol.fault_sites import FaultSite
from lineloop.protocol.messages import Message
from lineloop.testing import until
from lineloop.testing.server_world import ServerWorld, server_world


@asynccontextmanager
async def person_of(
    server: ServerWorld, folder: Path, token: str | None = None
) -> AsyncGenerator[tuple[PersonSide, AppsWorld]]:
    """A device with the local person's credential; entering it again on the same folder is a restart."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        await server.server.asgi(scope, receive, send)

    async with apps_world(folder, clock=server.clock, faults=Faults.none()) as world:
        await world.registry.load()
        transport = InProcessTransport(asgi, server.server.open_link, token or server.admin_token)
        person = PersonSide(world.foundation, transport, world.inbox, world.registry)
        await person.start()
        try:
            yield person, world
        finally:
            await person.close()


async def texts(person: PersonSide, conversation_id: str) -> list[str]:
    return [message.text for message in await person.history(conversation_id)]


async def said(server: ServerWorld, conversation_id: str) -> list[str]:
    answer = await server.http.get(f"/v1/conversations/{conversation_id}/messages")
    return [Message.from_wire(one).text for one in answer.json()["items"]]


async def test_messages_are_kept_for_the_chat_app_and_read_without_a_server(tmp_path: Path) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        operator = await server.actor("operator/echo")
        await server.invite(conversation, "operator/echo")
        async with person_of(server, tmp_path / "device") as (person, world):
            person.follow(conversation)
            for number in range(3):
                body = {"key": f"k{number}", "text": f"hello {number}"}
                await operator.post(f"/v1/conversations/{conversation}/messages", json=body)
            wanted = ["hello 0", "hello 1", "hello 2"]

            async def kept() -> bool:
                return await texts(person, conversation) == wanted

            await until(kept)
            chat = SessionContext("chat", "ses_chat", conversation, "1.0.0")
            page = await world.inbox.list(chat)
            assert [entry.message.payload["text"] for entry in page.items] == wanted
            assert {entry.message.type for entry in page.items} == {"lineup.content.text"}
            sites = {str(site) for site in FaultSite if site.startswith("device.person.message.")}
            assert sites <= set(world.foundation.faults.reached)
    async with apps_world(tmp_path / "device") as world:
        rows = await world.foundation.read(lambda tx: tx.all("SELECT ordinal FROM person_messages"))
        assert len(rows) == 3


async def test_what_came_while_the_device_was_away_is_caught_up(tmp_path: Path) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        path = f"/v1/conversations/{conversation}/messages"
        operator = await server.actor("operator/echo")
        await server.invite(conversation, "operator/echo")
        async with person_of(server, tmp_path / "device") as (person, _):
            person.follow(conversation)
            await operator.post(path, json={"key": "k1", "text": "before"})
            await until(lambda: _kept(person, conversation, ["before"]))
        await operator.post(path, json={"key": "k2", "text": "meanwhile"})
        async with person_of(server, tmp_path / "device") as (person, _):
            await until(lambda: _kept(person, conversation, ["before", "meanwhile"]))


async def _kept(person: PersonSide, conversation: str, wanted: list[str]) -> bool:
    return await texts(person, conversation) == wanted


async def test_listeners_see_a_stream_grow_and_the_history_its_end(tmp_path: Path) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        operator = await server.actor("operator/echo")
        await server.invite(conversation, "operator/echo")
        async with person_of(server, tmp_path / "device") as (person, _):
            states: list[str] = []
            person.subscribe(lambda message: states.append(message.text))
            person.follow(conversation)
            answer = await operator.post(
                f"/v1/conversations/{conversation}/messages", json={"key": "k", "stream": True}
            )
            message_id = answer.json()["id"]
            block = {"op": "set", "seq": 1, "block": {"id": "t", "type": "text", "content": "one"}}
            await operator.post(f"/v1/messages/{message_id}/patches", json={"patches": [block]})
            await until(lambda: "one" in states)
            more = {
                "op": "append",
                "seq": 2,
                "block": {"id": "t", "content": " two"},
                "mask": "block.content",
            }
            answer = await operator.post(f"/v1/messages/{message_id}/patches", json={"patches": [more]})
            assert answer.status_code == 202, answer.text
            await until(lambda: "one two" in states)
            await operator.post(f"/v1/messages/{message_id}/end", json={"seq": 3})

            async def ended() -> bool:
                history = await person.history(conversation)
                return bool(history) and history[-1].status.ended and history[-1].text == "one two"

            await until(ended)


async def test_what_is_said_while_the_server_is_away_arrives_once_and_in_order(tmp_path: Path) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        await server.server.close()
        async with person_of(server, tmp_path / "device") as (person, _):
            for text in ("one", "two"):
                await person.say(conversation, text, key=text)
            await person.say(conversation, "one", key="one")
            assert await person.unsent() == 2
        await server.restart()
        async with person_of(server, tmp_path / "device") as (person, _):

            async def sent() -> bool:
                return await person.unsent() == 0

            await until(sent)
            assert await said(server, conversation) == ["one", "two"]
            assert person.outbox.waiting == 0


async def test_what_the_server_refuses_does_not_stop_the_rest(tmp_path: Path) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        async with person_of(server, tmp_path / "device") as (person, _):
            await person.say("con_unknown", "nobody hears this", key="lost")
            await person.say(conversation, "heard", key="heard")

            async def sent() -> bool:
                return await person.unsent() == 0

            await until(sent)
            assert await person.refusal("con_unknown", "lost") == "conversation_not_found"
            assert await person.refusal(conversation, "heard") is None
            assert await said(server, conversation) == ["heard"]


@pytest.mark.requirement("D103")
async def test_a_credential_that_is_not_taken_makes_what_is_said_wait_and_refuses_nothing(
    tmp_path: Path,
) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        async with person_of(server, tmp_path / "device", "not-the-one") as (person, _):
            await person.say(conversation, "one", key="one")
            await server.clock.advance(30)
            assert await person.refusal(conversation, "one") is None
            assert await person.unsent() == 1
        async with person_of(server, tmp_path / "device") as (person, _):

            async def sent() -> bool:
                return await person.unsent() == 0

            await until(sent)
            assert await said(server, conversation) == ["one"]


async def test_the_person_answers_a_question(tmp_path: Path) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        operator = await server.actor("operator/echo")
        await server.invite(conversation, "operator/echo")
        question = {
            "kind": "ask",
            "effect_key": "e1",
            "to": {"kind": "user", "key": "local"},
            "text": "Tea?",
            "choices": [{"value": "yes", "label": "Yes"}, {"value": "no", "label": "No"}],
            "timeout_ms": 60_000,
        }
        async with person_of(server, tmp_path / "device") as (person, world):
            person.follow(conversation)
            asked = await operator.post(f"/v1/conversations/{conversation}/questions", json=question)
            assert asked.status_code == 201, asked.text
            question_id = asked.json()["id"]
            await until(lambda: _kept_some(person, conversation))
            await person.answer(conversation, question_id, "yes")

            async def answered() -> bool:
                return (await operator.get(f"/v1/questions/{question_id}")).json()["state"] == "success"

            await until(answered)
            chat = SessionContext("chat", "ses_chat", conversation, "1.0.0")
            page = await world.inbox.list(chat)
            assert "lineup.interaction.choice" in {entry.message.type for entry in page.items}


async def _kept_some(person: PersonSide, conversation: str) -> bool:
    return bool(await person.history(conversation))


@pytest.mark.parametrize("revision", [0, 7])
async def test_what_the_chat_app_gets_is_a_valid_envelope(tmp_path: Path, revision: int) -> None:
    async with server_world(tmp_path) as server:
        conversation = await server.conversation()
        answer = await server.http.post(
            f"/v1/conversations/{conversation}/messages", json={"key": "k", "text": "hello"}
        )
        message = Message.from_wire(answer.json())
        envelope = content_envelope(message.with_content(message.content, revision), conversation)
        assert check_envelope(envelope, from_agent=False).sender.kind == "user"


@pytest.mark.requirement("T2")
async def test_a_server_that_was_put_back_to_a_backup_is_believed_and_what_it_lost_can_be_said_again(
    tmp_path: Path,
) -> None:
    async with server_world(tmp_path) as server:
        place = await server.conversation()
        async with person_of(server, tmp_path / "device") as (person, _):
            person.follow(place)
            keys = [await person.say(place, text) for text in ("kept", "lost")]

            async def both() -> bool:
                return await texts(person, place) == ["kept", "lost"]

            await until(both)
            heard: list[object] = []
            person.streams.watch(place, heard.append)
            await _put_back(server, place, keys[1])
            await server.restart()
            await server.clock.advance(30)

            async def believed() -> bool:
                return await texts(person, place) == ["kept"]

            await until(believed)

            async def told() -> bool:
                return await person.refusal(place, keys[1]) == "message_not_found"

            await until(told)
            assert await person.refusal(place, keys[0]) is None
            assert any(isinstance(event, BeganAnew) for event in heard)
            assert await said(server, place) == ["kept"]
            await person.say(place, "lost", key=keys[1])
            await until(both)
            assert await said(server, place) == ["kept", "lost"]


async def _put_back(server: ServerWorld, place: str, key: str) -> None:
    """The server's database is as it was before a message of this key; it lives anew."""

    def job(tx: Tx) -> None:
        tx.execute("DELETE FROM messages WHERE conversation_id = ? AND key = ?", (place, key))
        tx.execute("DELETE FROM meta WHERE name = 'server_epoch'")

    await server.server.commits.write(job, "t")
