"""What waits for a page: the newest of each part, a bounded queue, and a farewell."""

from __future__ import annotations

import asyncio

import pytest

from lineloop.device.host.web.pages import MAX_WAITING_BYTES, ROOM_BYTES, SLOW, Page, PageGone
from lineloop.kit import json
from lineloop.kit.tasks import Tasks
from lineloop.testing import until


def a_page() -> Page:
    return Page("hst_1", "tab", "en")


async def test_of_each_part_only_the_newest_waits_and_nothing_is_told_twice() -> None:
    page, sent = a_page(), list[str]()

    async def send(text: str) -> None:
        sent.append(text)

    for waiting in range(5):
        page.tell("connection", {"waiting": waiting})
    async with Tasks("test") as tasks:
        tasks.spawn(page.run(send), name="run")
        await until(lambda: len(sent) == 1)
        page.tell("connection", {"waiting": 4})
        page.send("frame")
        await until(lambda: len(sent) == 2)
        page.send("another")
        page.tell("connection", {"waiting": 0})
        await until(lambda: len(sent) == 4)
    assert [json.loads(text)["payload"]["waiting"] for text in (sent[0], sent[2])] == [4, 0]
    assert (sent[1], sent[3]) == ("frame", "another")


async def test_a_part_that_changes_back_before_it_was_told_is_not_told() -> None:
    page, sent, go_on = a_page(), list[str](), asyncio.Event()

    async def send(text: str) -> None:
        sent.append(text)
        await go_on.wait()

    async with Tasks("test") as tasks:
        tasks.spawn(page.run(send), name="run")
        page.tell("consent", {"sheets": [1]})
        await until(lambda: len(sent) == 1)
        page.tell("consent", {"sheets": []})
        page.tell("consent", {"sheets": [1]})
        go_on.set()
        page.send("last")
        await until(lambda: sent[-1] == "last")
    assert len(sent) == 2


async def test_a_page_that_takes_nothing_is_left_with_a_farewell() -> None:
    page, sent = a_page(), list[str]()
    for _ in range(MAX_WAITING_BYTES // 100_000 + 2):
        page.send("x" * 100_000)
    page.tell("connection", {})

    async def send(text: str) -> None:
        sent.append(text)

    with pytest.raises(PageGone) as gone:
        await page.run(send)
    assert gone.value.code == SLOW
    assert [json.loads(text)["type"] for text in sent] == ["bye"]


async def test_there_is_room_again_when_enough_was_taken() -> None:
    page = a_page()
    page.send("x" * (ROOM_BYTES + 1))
    async with Tasks("test") as tasks:
        waiting = tasks.spawn(page.drained(), name="drained")
        await asyncio.wait({waiting}, timeout=0.01)
        assert not waiting.done()

        async def send(_: str) -> None:
            return

        tasks.spawn(page.run(send), name="run")
        await waiting


@pytest.mark.requirement("H19")
async def test_what_waits_is_counted_in_bytes() -> None:
    page = a_page()
    for _ in range(MAX_WAITING_BYTES // 3_000_000 + 1):
        page.send("钥" * 1_000_000)

    async def send(_: str) -> None:
        """Whatever is sent arrives."""

    with pytest.raises(PageGone) as gone:
        await page.run(send)
    assert gone.value.code == SLOW
