"""The chat app's state: conversations, unread, recipients, connection; runs stopped truthfully."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.core_apps.page import Page, Refused

from lineloop.protocol.actors import Actor
from lineloop.protocol.machines import RUN
from lineloop.testing.full_world import AGENT, FullWorld, full_world
from lineloop.testing.waiting import until

Json = dict[str, Any]


async def watching(world: FullWorld) -> Page:
    page = await Page(world.runtime.core_sessions).hello()
    await page.watch()
    return page


def entry(page: Page, conversation_id: str) -> Json:
    found = [one for one in page.state["conversations"] if one["id"] == conversation_id]
    return found[0] if found else {}


async def patiently(world: FullWorld, reached: Any) -> None:
    async def later() -> bool:
        await world.server.advance(1)
        return bool(reached())

    await until(later)


async def speak(world: FullWorld, conversation_id: str, key: str, text: str) -> Json:
    path = f"/v1/conversations/{conversation_id}/messages"
    answer = await world.agent.post(path, json={"key": key, "text": text})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest.mark.requirement("L183")
async def test_a_conversation_made_elsewhere_appears_and_what_moves_comes_first(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        await patiently(world, lambda: entry(page, world.conversation_id))
        assert entry(page, world.conversation_id)["title"] == "test"
        other = await world.server.conversation("made elsewhere")
        await patiently(world, lambda: entry(page, other))
        assert [one["title"] for one in page.state["conversations"]] == ["made elsewhere", "test"]
        await speak(world, world.conversation_id, "k", "news")
        await until(lambda: page.state["conversations"][0]["id"] == world.conversation_id)


async def test_unread_is_what_others_said_since_and_survives_a_restart(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        for number in range(3):
            await speak(world, world.conversation_id, f"k{number}", "news")
        await patiently(world, lambda: entry(page, world.conversation_id).get("unread") == 3)
        last = entry(page, world.conversation_id)["last_ordinal"]
        await page.act("mark_read", conversation_id=world.conversation_id, ordinal=last - 1)
        await until(lambda: entry(page, world.conversation_id)["unread"] == 1)
        await page.act("mark_read", conversation_id=world.conversation_id, ordinal=1)
        assert entry(page, world.conversation_id)["unread"] == 1
        await world.server_goes()
        await world.restart_device()
        page = await watching(world)
        assert entry(page, world.conversation_id)["unread"] == 1
        assert entry(page, world.conversation_id)["title"] == "test"
        await page.act("mark_read", conversation_id=world.conversation_id, ordinal=last)
        await until(lambda: entry(page, world.conversation_id)["unread"] == 0)


async def test_a_conversation_that_is_renamed_or_read_elsewhere_is_so_here(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        place = f"/v1/conversations/{world.conversation_id}"
        for number in range(2):
            await speak(world, world.conversation_id, f"k{number}", "news")
        await patiently(world, lambda: entry(page, world.conversation_id).get("unread") == 2)
        renamed = await world.server.http.patch(place, json={"name": "Shed door"})
        assert renamed.status_code == 200
        await patiently(world, lambda: entry(page, world.conversation_id)["title"] == "Shed door")
        last = entry(page, world.conversation_id)["last_ordinal"]
        assert (await world.server.http.put(f"{place}/read", json={"ordinal": last})).status_code == 200
        await patiently(world, lambda: entry(page, world.conversation_id)["unread"] == 0)
        # The stream goes on.
        await speak(world, world.conversation_id, "k9", "more news")
        await patiently(world, lambda: entry(page, world.conversation_id)["unread"] == 1)


async def test_a_conversation_without_a_name_is_called_by_its_first_words(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        made = await page.act("create_conversation")
        assert (made["title"], made["name"], made["unread"]) == ("", None, 0)
        text = "Please find out\nwhy the door of the shed does not close any more since last Tuesday"
        await page.act("say", conversation_id=made["id"], key="k", text=text)
        await until(lambda: entry(page, made["id"]).get("title"))
        title = "Please find out why the door of the shed does not close…"
        assert entry(page, made["id"])["title"] == title
        assert page.state["conversations"][0]["id"] == made["id"]
        view = await page.open(made["id"])
        await until(lambda: view.texts() == [text])
        assert not view.more
        await world.restart_device()
        page = await watching(world)
        assert entry(page, made["id"])["title"] == title


async def test_a_conversation_is_made_once_per_action_and_only_with_a_server(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        made = [await page.act("create_conversation", action_id="new", name="one") for _ in range(2)]
        assert made[0]["id"] == made[1]["id"]
        await world.server_goes()
        asked = asyncio.ensure_future(page.act("create_conversation", action_id="later"))
        while not asked.done():
            await world.server.advance(1)  # it is tried again before it is given up
        with pytest.raises(Refused) as refused:
            await asked
        assert refused.value.code in ("connection_lost", "storage_unavailable")
        await world.server_comes()
        assert (await page.act("create_conversation", action_id="later"))["id"] != made[0]["id"]


@pytest.mark.requirement("P25")
async def test_a_conversation_is_made_once_though_its_answer_is_lost_and_the_device_restarts(
    tmp_path: Path,
) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        first = await page.act("create_conversation", key="mine")
        named = await page.act("create_conversation", action_id="act_1")
        await world.restart_device()
        page = await watching(world)
        assert (await page.act("create_conversation", key="mine"))["id"] == first["id"]
        assert (await page.act("create_conversation", action_id="act_1"))["id"] == named["id"]
        fresh = await page.act("create_conversation", action_id="act_2")
        assert fresh["id"] not in {first["id"], named["id"]}


async def test_recipients_are_who_is_alive_and_who_was_met(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        about = {"display_name": "The planner", "description": "Plans.", "lease_ms": 20_000}
        planner = await world.server.actor("operator/planner")
        await planner.put("/v1/actors/operator/planner", json=about)
        role = await world.server.actor("operator/planner/auditor")
        await role.put("/v1/actors/operator%2Fplanner/auditor", json=about)
        await speak(world, world.conversation_id, "k", "here I am")

        def recipients() -> dict[str, bool]:
            return {f"{one['kind']}/{one['key']}": one["online"] for one in page.state["recipients"]}

        await patiently(world, lambda: recipients() == {"operator/planner": True, AGENT: False})
        assert page.state["recipients"][0] == {
            "kind": "operator",
            "key": "planner",
            "display_name": "The planner",
            "description": "Plans.",
            "online": True,
        }
        await world.server.advance(40)
        await until(lambda: recipients() == {"operator/planner": False, AGENT: False})
        await world.server_goes()
        await world.restart_device()
        page = await watching(world)
        assert [one["display_name"] for one in page.state["recipients"]] == ["The planner", "assistant"]


async def test_who_is_there_is_said_to_be_known_only_after_the_server_was_asked(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        await world.server_goes()
        page = await watching(world)
        await world.server.advance(30)
        assert page.state["recipients_known"] is False
        await world.server_comes()
        await patiently(world, lambda: page.state["recipients_known"])
        await speak(world, world.conversation_id, "k", "here I am")
        await patiently(world, lambda: page.state["recipients"])
        page.session.close()
        again = await Page(world.runtime.core_sessions).hello()
        assert again.init is not None
        assert again.init["state"]["recipients_known"] is False
        await again.watch()
        await patiently(world, lambda: again.state["recipients_known"])
        again.session.close()
        await world.server_goes()
        await world.restart_device()
        page = await watching(world)
        await patiently(world, lambda: page.state["recipients_known"])
        assert [one["online"] for one in page.state["recipients"]] == [False]


async def prompt(world: FullWorld) -> Json:
    """The agent has a run that answers the person."""
    body = {
        "conversation_id": world.conversation_id,
        "text": "count",
        "idempotency_key": "run-1",
        "effect_key": "run-1",
        "target": "demo",
        "recipient": Actor.parse("user/local").to_wire(),
    }
    answer = await world.agent.post("/v1/harness/runs", json=body)
    assert answer.status_code == 202, answer.text
    return answer.json()


async def test_stop_is_what_the_server_has_stored(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        view = await page.open(world.conversation_id)
        run = await prompt(world)
        await until(lambda: run["message_id"] in view.messages)
        assert view.messages[run["message_id"]]["run_id"] == run["id"]
        stopped = await page.act("stop_run", message_id=run["message_id"])
        assert stopped["phase"] in RUN.states
        await patiently(world, lambda: view.messages[run["message_id"]]["status"] != "streaming")
        ended = (await world.agent.get(f"/v1/harness/runs/{run['id']}")).json()
        assert ended["phase"] == "cancelled"
        assert view.messages[run["message_id"]]["status"] == "cancelled"
        assert (await page.act("stop_run", message_id=run["message_id"]))["phase"] == ended["phase"]
        spoken = await speak(world, world.conversation_id, "k", "no run")
        for message_id, code in ((spoken["id"], "run_not_found"), ("msg_none", "message_not_found")):
            with pytest.raises(Refused) as refused:
                await page.act("stop_run", message_id=message_id)
            assert refused.value.code == code
        await world.server_goes()
        stopping = asyncio.create_task(page.act("stop_run", message_id=run["message_id"]))
        await patiently(world, stopping.done)
        with pytest.raises(Refused) as refused:
            await stopping
        assert refused.value.code in ("connection_lost", "storage_unavailable")


async def test_a_call_names_the_message_of_the_run_that_made_it(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        view = await page.open(world.conversation_id)
        run = await prompt(world)
        await until(lambda: run["message_id"] in view.messages)
        call_id = f"{run['id']}/1.0"
        await world.invoke("pomodoro.start", {"minutes": 5}, call_id)
        await until(lambda: view.calls.get(call_id, {}).get("state") == "operating")
        assert view.calls[call_id]["run_message_id"] == run["message_id"]


async def test_the_connection_is_shown_as_it_is(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)

        def states() -> list[str]:
            told = [one["connection"]["state"] for one in page.states]
            return [one for at, one in enumerate(told) if at == 0 or told[at - 1] != one]

        await patiently(world, lambda: page.state["connection"]["state"] == "online")
        since = page.state["connection"]["since"]
        page.states.clear()
        await world.server_goes()
        await patiently(world, lambda: "offline" in states())
        assert page.state["connection"]["since"] > since
        await world.server_comes()
        await patiently(world, lambda: states()[-1] == "online")
        assert set(states()) <= {"connecting", "catching_up", "offline", "online"}
        assert page.state["connection"]["waiting"] == 0


@pytest.mark.requirement("L301")
async def test_a_conversation_is_renamed_archived_and_brought_back_for_everyone(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        await patiently(world, lambda: entry(page, world.conversation_id))
        named = {"conversation_id": world.conversation_id}
        answer = await page.act("rename", **named, name="Shed door")
        assert (answer["title"], answer["owner"]) == ("Shed door", "user/local")
        place = f"/v1/conversations/{world.conversation_id}"
        assert (await world.agent.get(place)).json()["name"] == "Shed door"
        await page.act("archive", **named, archived=True)
        assert entry(page, world.conversation_id)["archived_at"]
        await world.restart_device()
        page = await watching(world)
        assert entry(page, world.conversation_id)["archived_at"]
        # What is said there brings it back.
        await page.act("say", **named, key="k", text="it does not close")
        await patiently(world, lambda: entry(page, world.conversation_id)["archived_at"] is None)
        await page.act("archive", **named, archived=True)
        await page.act("archive", **named, archived=False)
        assert entry(page, world.conversation_id)["archived_at"] is None
        for wrong in ({"name": " "}, {"name": "x" * 201}):
            with pytest.raises(Refused) as refused:
                await page.act("rename", **named, **wrong)
            assert refused.value.code == "invalid_request"
        found = await page.ask("messages.search", words="not clo")
        assert [hit["conversation_id"] for hit in found["items"]] == [world.conversation_id]
        assert [part["text"] for part in found["items"][0]["snippet"] if part["hit"]] == ["not", "close"]


@pytest.mark.requirement("L302")
async def test_what_was_read_here_the_server_hears_also_when_it_was_away(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        await speak(world, world.conversation_id, "k", "news")
        await patiently(world, lambda: entry(page, world.conversation_id).get("unread") == 1)
        last = entry(page, world.conversation_id)["last_ordinal"]
        await world.server_goes()
        await page.act("mark_read", conversation_id=world.conversation_id, ordinal=last)
        assert entry(page, world.conversation_id)["read_ordinal"] == last
        await world.server_comes()

        async def told() -> bool:
            await world.server.advance(1)
            place = f"/v1/conversations/{world.conversation_id}"
            return (await world.server.http.get(place)).json()["read_ordinal"] == last

        await until(told)


@pytest.mark.requirement("L303")
async def test_who_takes_part_is_seen_brought_in_and_taken_out(tmp_path: Path) -> None:
    async with full_world(tmp_path, person=True) as world:
        page = await watching(world)
        await patiently(world, lambda: entry(page, world.conversation_id))
        named = {"conversation_id": world.conversation_id}

        async def who() -> dict[str, bool]:
            items = (await page.ask("participants.list", **named))["items"]
            return {f"{one['kind']}/{one['key']}": one["owner"] for one in items}

        assert (await who())["user/local"] is True
        other = {"kind": "operator", "key": "gardener"}
        for _ in range(2):
            await page.act("invite", **named, participant=other)
        assert (await who())["operator/gardener"] is False
        await page.act("take_out", **named, participant=other)
        assert "operator/gardener" not in await who()
        with pytest.raises(Refused) as refused:
            await page.act("take_out", **named, participant={"kind": "user", "key": "local"})
        assert refused.value.code == "invalid_request"
        assert entry(page, world.conversation_id)
        with pytest.raises(Refused) as refused:
            await page.act("invite", **named, participant=None)
        assert refused.value.code == "invalid_request"
