"""What the person says through the chat app: kept at once, said once, its fate shown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.core_apps.page import Page, Refused, View
from tests.interaction.core_apps.say_and_die import KEY, TEXT

from lineloop.protocol.actors import Actor
from lineloop.testing.full_world import AGENT, PERSON, FullWorld, full_world
from lineloop.testing.waiting import until

Json = dict[str, Any]


async def page_of(world: FullWorld) -> Page:
    return await Page(world.runtime.core_sessions).hello()


async def said(world: FullWorld, conversation_id: str) -> list[str]:
    path = f"/v1/conversations/{conversation_id}/messages"
    answer = await world.server.http.get(path)
    return [one["content"]["blocks"][0]["content"] for one in answer.json()["items"]]


async def patiently(world: FullWorld, reached: Any) -> None:
    """Lets time pass for whoever tries again."""

    async def later() -> bool:
        await world.server.advance(1)
        return bool(reached())

    await until(later)


def state_of(view: View, key: str) -> str | None:
    return view.sayings.get(key, {}).get("state")


async def test_a_saying_is_pending_then_sent_then_a_message(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(world.conversation_id)
        receipt = await page.act(
            "say",
            conversation_id=world.conversation_id,
            key="k1",
            text="hi",
            target=Actor.parse(AGENT).to_wire(),
        )
        assert (receipt["key"], receipt["state"]) == ("k1", "pending")
        await until(lambda: state_of(view, "k1") == "sent")
        await until(lambda: view.texts() == ["hello", "hi"])
        message = view.messages[view.sayings["k1"]["message_id"]]
        assert message["key"] == "k1"
        assert message["actor"] == Actor.parse(PERSON).to_wire()
        assert message["target"] == Actor.parse(AGENT).to_wire()
        late = await page.open(world.conversation_id)
        assert late.sayings == {}


async def test_a_repeated_action_and_a_repeated_key_say_it_once(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        about = {"conversation_id": world.conversation_id, "key": "k1", "text": "hi"}
        for action_id in ("a1", "a1", "a2"):
            await page.act("say", action_id=action_id, **about)
        again = await page_of(world)
        await again.act("say", action_id="a1", **about)
        view = await again.open(world.conversation_id)
        await until(lambda: view.texts() == ["hello", "hi"])
        assert await said(world, world.conversation_id) == ["hello", "hi"]


async def test_what_is_said_while_the_server_is_away_is_shown_counted_and_sent_later(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        await page.watch()
        view = await page.open(world.conversation_id)
        await until(lambda: view.texts() == ["hello"])
        await world.inventory()
        await until(lambda: world.runtime.connection.waiting == 0)
        await world.server_goes()
        await world.server.advance(10)
        assert page.state["connection"] == {
            "state": "offline",
            "waiting": 0,
            "since": page.state["connection"]["since"],
            "reason": None,
        }
        for number in range(3):
            await page.act("say", conversation_id=world.conversation_id, key=f"k{number}", text=f"{number}")
        await until(lambda: page.state["connection"]["waiting"] == 3)
        late = await (await page_of(world)).open(world.conversation_id)
        assert [(one["text"], one["state"]) for one in late.sayings.values()] == [
            ("0", "pending"),
            ("1", "pending"),
            ("2", "pending"),
        ]
        await world.restart_device()
        page = await page_of(world)
        await page.watch()
        view = await page.open(world.conversation_id)
        assert page.state["connection"]["waiting"] == 3
        assert list(view.sayings) == ["k0", "k1", "k2"]
        await world.server_comes()
        await patiently(world, lambda: view.texts() == ["hello", "0", "1", "2"])
        await patiently(world, lambda: page.state["connection"]["state"] == "online")
        await until(lambda: page.state["connection"]["waiting"] == 0)
        assert {one["state"] for one in view.sayings.values()} == {"sent"}
        assert await said(world, world.conversation_id) == ["hello", "0", "1", "2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "site",
    [
        "device.person.say.before_commit",
        "device.person.say.after_commit",
        "device.person.sent.before_commit",
        "device.person.sent.after_commit",
    ],
)
async def test_a_device_killed_at_any_moment_delivers_a_saying_once(tmp_path: Path, site: str) -> None:
    child = subprocess.run(  # noqa: ASYNC221 (the process is meant to die)
        [sys.executable, "-m", "tests.interaction.core_apps.say_and_die", str(tmp_path), site],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": "src"},
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    conversation_id = (tmp_path / "conversation").read_text()
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(conversation_id)
        if site == "device.person.say.before_commit":
            # Nothing was promised: the page, which got no receipt, says it again.
            assert view.sayings == {}
            await page.act("say", conversation_id=conversation_id, key=KEY, text=TEXT)
        await patiently(world, lambda: view.texts(conversation_id) == ["hello", TEXT])
        await page.act("say", conversation_id=conversation_id, key=KEY, text=TEXT)
        await world.server.advance(5)
        assert await said(world, conversation_id) == ["hello", TEXT]
        late = await page.open(conversation_id)
        assert late.sayings == {}


@pytest.mark.requirement("L184")
async def test_a_refused_saying_stays_with_its_code_and_can_be_said_again_or_forgotten(
    tmp_path: Path,
) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        # No conversation of the server's: it refuses whatever is said there, for good.
        view = await page.open("con_elsewhere")
        await page.act("say", conversation_id="con_elsewhere", key="k1", text="nobody hears this")
        await until(lambda: state_of(view, "k1") == "refused")
        assert view.sayings["k1"]["code"] == "conversation_not_found"
        assert view.sayings["k1"]["text"] == "nobody hears this"
        late = await page.open("con_elsewhere")
        assert state_of(late, "k1") == "refused"
        again = await page.act("say", conversation_id="con_elsewhere", key="k1", text="nobody hears this")
        assert again["state"] == "pending"
        await until(lambda: state_of(late, "k1") == "refused" and late.sayings["k1"]["state"] == "refused")
        await until(lambda: world.runtime.connection.waiting == 0)
        await page.act("forget_saying", key="k1")
        assert state_of(view, "k1") == "forgotten"
        with pytest.raises(Refused) as refused:
            await page.act("forget_saying", key="k1")
        assert refused.value.code == "not_found"
        assert (await page.open("con_elsewhere")).sayings == {}


@pytest.mark.requirement("L182")
async def test_a_late_saying_or_answer_enters_the_conversation_it_was_meant_for(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        other = await world.server.conversation("other")
        page = await page_of(world)
        await world.server_goes()
        await page.act("say", conversation_id=world.conversation_id, key="k1", text="for the first")
        view = await page.open(other)
        await world.server_comes()
        await patiently(world, lambda: world.runtime.connection.waiting == 0)
        assert await said(world, world.conversation_id) == ["hello", "for the first"]
        assert await said(world, other) == []
        assert view.texts() == []
        assert view.sayings == {}


async def test_a_question_is_answered_once_and_by_the_card_alone(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        view = await page.open(world.conversation_id)
        asked = await world.agent.post(
            f"/v1/conversations/{world.conversation_id}/questions",
            json={
                "kind": "ask",
                "effect_key": "e1",
                "to": Actor.parse(PERSON).to_wire(),
                "text": "Tea?",
                "choices": [{"value": "yes", "label": "Yes"}, {"value": "no", "label": "No"}],
                "timeout_ms": 60_000,
            },
        )
        question_id = asked.json()["id"]
        await until(lambda: question_id in view.messages)
        assert (await page.ask("questions.get", question_id=question_id))["state"] == "pending"
        about = {"conversation_id": world.conversation_id, "question_id": question_id}
        await page.act("answer", value="perhaps", **about)
        await until(lambda: state_of(view, f"answer/{question_id}") == "refused")
        saying = view.sayings[f"answer/{question_id}"]
        assert (saying["code"], saying["kind"], saying["value"]) == ("answer_invalid", "answer", "perhaps")
        await page.act("answer", value="yes", **about)
        await until(lambda: state_of(view, f"answer/{question_id}") == "sent")
        await until(lambda: view.messages[question_id]["content"]["blocks"][0]["state"] == "success")
        await page.act("answer", value="no", **about)
        question = await page.ask("questions.get", question_id=question_id)
        assert (question["state"], question["value"]) == ("success", "yes")


@pytest.mark.parametrize(
    ("action", "params"),
    [
        ("say", {"key": "k", "text": "no conversation"}),
        ("say", {"conversation_id": "c", "key": "k", "text": "  "}),
        ("say", {"conversation_id": "c", "key": "k", "text": "x", "target": "operator/echo"}),
        ("say", {"conversation_id": "c", "key": "k" * 300, "text": "x"}),
        ("answer", {"conversation_id": "c", "question_id": "q", "value": 7}),
        ("mark_read", {"conversation_id": "c", "ordinal": -1}),
        ("create_conversation", {"name": " "}),
        ("stop_run", {}),
        ("nonsense", {}),
    ],
)
async def test_an_action_that_makes_no_sense_is_refused_by_name(
    tmp_path: Path, action: str, params: Json
) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await page_of(world)
        with pytest.raises(Refused) as refused:
            await page.act(action, **params)
        assert refused.value.code == "invalid_request"
        assert world.runtime.person is not None
        assert world.runtime.person.outbox.waiting == 0


async def test_without_the_persons_credential_nothing_is_read_or_said(tmp_path: Path) -> None:
    async with full_world(tmp_path) as world:
        page = await page_of(world)
        await page.watch()
        assert page.state["conversations"] == []
        for asking in (
            page.ask("messages.list", conversation_id=world.conversation_id),
            page.act("say", conversation_id=world.conversation_id, key="k", text="x"),
        ):
            with pytest.raises(Refused) as refused:
                await asking
            assert refused.value.code == "forbidden"
