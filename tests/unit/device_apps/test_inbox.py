"""The app inbox: kept first, delivered after, acknowledged by delivery or by word."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.device_apps.apps_world import AppsWorld, apps_world

from lineloop.device.containers.port import SessionContext
from lineloop.device.decide.inbox import (
    InboxEntry,
    InboxMessage,
    MessageKept,
    MessageRefused,
    Receiver,
    decide_app_gone,
    type_matches,
)
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import NotFound
from lineloop.testing import until

PROBE = Receiver(True, ErrorCode.APP_DISABLED, ("lineup.app.state.patch", "lineup.content.*"))
PATCH, TEXT = "lineup.app.state.patch", "lineup.content.text"


def message(
    name: str, kind: str = PATCH, *, conversation_id: str = "con_1", session: str | None = None
) -> InboxMessage:
    return InboxMessage("probe", conversation_id, name, kind, {"name": name}, None, session)


async def receive(
    world: AppsWorld, one: InboxMessage, receiver: Receiver | None = PROBE
) -> MessageKept | MessageRefused | None:
    return await world.foundation.write(lambda tx: world.inbox.receive_in(tx, one, receiver))


async def pending(world: AppsWorld, session: SessionContext) -> list[str]:
    page = await world.inbox.list(session)
    return [entry.message.message_id for entry in page.items]


def names(heard: list[InboxEntry]) -> list[str]:
    return [entry.message.message_id for entry in heard]


@pytest.mark.requirement("D54")
async def test_a_message_for_a_stopped_app_is_kept_and_read_after_a_restart(tmp_path: Path) -> None:
    async with apps_world(tmp_path) as world:
        assert isinstance(await receive(world, message("m1")), MessageKept)
    async with apps_world(tmp_path) as world:
        assert await pending(world, await world.session()) == ["m1"]


@pytest.mark.requirement("D54")
async def test_an_acknowledgement_removes_a_message_and_a_second_one_does_no_harm(world: AppsWorld) -> None:
    kept = await receive(world, message("m1"))
    assert isinstance(kept, MessageKept)
    session = await world.session()
    await world.inbox.acknowledge(session, kept.inbox_id)
    await world.inbox.acknowledge(session, kept.inbox_id)
    assert await pending(world, session) == []


async def test_a_message_is_kept_once(world: AppsWorld) -> None:
    await receive(world, message("m1"))
    assert await receive(world, message("m1")) is None
    assert await pending(world, await world.session()) == ["m1"]


async def test_subscribers_get_waiting_messages_first_and_live_ones_after(world: AppsWorld) -> None:
    session = await world.session()
    heard: list[InboxEntry] = []
    await receive(world, message("m1"))
    subscription = await world.inbox.subscribe(session, heard.append)
    await receive(world, message("m2"))
    assert names(heard) == ["m1", "m2"]
    subscription.close()
    await receive(world, message("m3"))
    assert names(heard) == ["m1", "m2"]


async def test_without_pending_only_new_messages_come(world: AppsWorld) -> None:
    heard: list[InboxEntry] = []
    await receive(world, message("m1"))
    await world.inbox.subscribe(await world.session(), heard.append, include_pending=False)
    await receive(world, message("m2"))
    assert names(heard) == ["m2"]


async def test_delivery_acknowledges_display_messages_and_no_others(world: AppsWorld) -> None:
    session = await world.session()
    heard: list[InboxEntry] = []
    await world.inbox.subscribe(session, heard.append)
    await receive(world, message("shown", TEXT))
    await receive(world, message("asked", PATCH))

    async def left() -> bool:
        rows = await world.foundation.read(
            lambda tx: tx.all("SELECT message_id FROM app_inbox WHERE state = 'pending'")
        )
        return [row[0] for row in rows] == ["asked"]

    await until(left)
    assert names(heard) == ["shown", "asked"]


@pytest.mark.requirement("D4")
async def test_an_app_sees_its_own_conversation_only(world: AppsWorld) -> None:
    session = await world.session()
    heard: list[InboxEntry] = []
    await world.inbox.subscribe(session, heard.append, conversation_id="con_2")
    await receive(world, message("here"))
    await receive(world, message("there", conversation_id="con_2"))
    await receive(world, message("other session", session="ses_9"))
    assert names(heard) == ["here"]
    assert await pending(world, session) == ["here"]


@pytest.mark.requirement("D4")
async def test_another_sessions_message_cannot_be_acknowledged(world: AppsWorld) -> None:
    kept = await receive(world, message("there", conversation_id="con_2"))
    assert isinstance(kept, MessageKept)
    for name in (kept.inbox_id, "inb_unknown"):
        with pytest.raises(NotFound):
            await world.inbox.acknowledge(await world.session(), name)


async def test_a_core_app_may_look_into_any_conversation(world: AppsWorld) -> None:
    chat = SessionContext("chat", "ses_chat", "con_1", "1.0.0")
    receiver = Receiver(True, ErrorCode.APP_DISABLED, ("lineup.content.*",))
    for where in ("con_1", "con_2"):
        await receive(world, InboxMessage("chat", where, where, "lineup.app.event", {}), receiver)
        await receive(world, InboxMessage("chat", where, f"{where}-text", TEXT, {}), receiver)
    page = await world.inbox.list(chat)
    assert [entry.message.message_id for entry in page.items] == ["con_1-text", "con_2-text"]


@pytest.mark.requirement("D8")
async def test_what_the_manifest_does_not_ask_for_never_arrives(world: AppsWorld) -> None:
    refused = await receive(world, message("m1", "lineup.agent.status"))
    assert isinstance(refused, MessageRefused)
    heard: list[InboxEntry] = []
    await world.inbox.subscribe(await world.session(), heard.append, types=["lineup.agent.*", TEXT])
    await receive(world, message("m2", "lineup.agent.status"))
    await receive(world, message("m3", TEXT))
    await receive(world, message("m4", PATCH))
    assert names(heard) == ["m3"]


@pytest.mark.requirement("D54")
@pytest.mark.parametrize(
    ("receiver", "code"),
    [
        (None, ErrorCode.APP_NOT_INSTALLED),
        (Receiver(False, ErrorCode.APP_DISABLED, ()), ErrorCode.APP_DISABLED),
        (Receiver(False, ErrorCode.SDK_INCOMPATIBLE, ()), ErrorCode.SDK_INCOMPATIBLE),
    ],
)
async def test_a_message_for_an_app_that_is_not_there_is_refused_with_its_code(
    world: AppsWorld, receiver: Receiver | None, code: ErrorCode
) -> None:
    refused = await receive(world, message("m1"), receiver)
    assert isinstance(refused, MessageRefused)
    assert (refused.code, refused.message.critical) == (code, True)


async def test_pages_go_on_where_they_ended(world: AppsWorld) -> None:
    session = await world.session()
    for number in range(5):
        await receive(world, message(f"m{number}"))
    first = await world.inbox.list(session, limit=2)
    assert first.next is not None
    second = await world.inbox.list(session, after=first.next, limit=3)
    assert [*names(list(first.items)), *names(list(second.items))] == ["m0", "m1", "m2", "m3", "m4"]
    assert second.next is None


async def test_old_closed_messages_are_forgotten_and_positions_only_grow(world: AppsWorld) -> None:
    session = await world.session()
    for number in range(3):
        kept = await receive(world, message(f"m{number}"))
        assert isinstance(kept, MessageKept)
        await world.inbox.acknowledge(session, kept.inbox_id)
    assert await world.inbox.prune(world.foundation.clock.now_ms() + 1) == 2
    kept = await receive(world, message("m9"))
    assert isinstance(kept, MessageKept)
    assert kept.position == 4


def test_only_critical_messages_have_to_be_answered_for_an_app_that_is_gone() -> None:
    entries = [
        InboxEntry("i1", 1, "pending", message("m1", TEXT)),
        InboxEntry("i2", 2, "pending", message("m2", PATCH)),
    ]
    gone = decide_app_gone(entries, ErrorCode.APP_DISABLED)
    assert [one.message.message_id for one in gone] == ["m2"]


@pytest.mark.parametrize(
    ("pattern", "kind", "matches"),
    [
        ("lineup.content.*", "lineup.content.text", True),
        ("lineup.content.*", "lineup.contents.text", False),
        ("lineup.content.text", "lineup.content.text", True),
        ("lineup.content", "lineup.content.text", False),
    ],
)
def test_patterns(pattern: str, kind: str, matches: bool) -> None:
    assert type_matches(pattern, kind) is matches
