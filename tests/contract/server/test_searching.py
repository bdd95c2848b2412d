"""Search over what a credential may see."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.contract.server.calls import Json, emit, end, get, open_stream, set_text, speak

from lineloop.server.wakeup.bus import Bus
from lineloop.testing.server_world import ServerWorld


async def search(client: httpx.AsyncClient, q: str, status: int = 200, **params: Any) -> list[Json]:
    answer = await get(client, "/messages/search", status, q=q, **params)
    return answer["items"] if status == 200 else [answer]


async def found(world: ServerWorld, q: str, **params: Any) -> list[str]:
    """The texts that are found, as their snippets show them."""
    await world.advance(1)
    return [shown(hit) for hit in await search(world.http, q, **params)]


def shown(hit: Json) -> str:
    return "".join(part["text"] for part in hit["snippet"])


def marked(hit: Json) -> list[str]:
    return [part["text"] for part in hit["snippet"] if part["hit"]]


@pytest.mark.requirement("C11")
@pytest.mark.parametrize(
    ("text", "queries", "others"),
    [
        (
            "The Tomatoes grow by the south wall",
            ["tomatoes", "TOMATOES south", "wall tom", "tomat", '"south wall"', '"the south"'],
            ["omatoes", "tomat ", '"wall south"', '"south wal"', "tomatoes north"],
        ),
        (
            "西红柿种在南墙边，下周开会再议。",
            ["西", "开会", "西红柿", "南墙边", "下周开会再议", "开会 西红柿", '"下周开会"'],
            ["会开", "边下周天", "番茄", "开会 番茄"],
        ),
        ("日本語のテキスト と Ελληνικά und Straße", ["テキスト", "ελληνικά", "STRASSE", "日本"], ["キテ"]),
        ("会议v2在3号楼 meeting-room B", ["v2", "会议v2", "3号楼", "meeting-room", "room b"], ["v3"]),
        ("cafe\u0301 ｆｕｌｌ width", ["café", "full"], ["cafe "]),
    ],
)
async def test_words_of_every_script_are_found(
    world: ServerWorld, text: str, queries: list[str], others: list[str]
) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "other", "something else entirely")
    await speak(world.http, conversation, "a", text)
    for query in queries:
        assert len(await found(world, query)) == 1, query
    for query in others:
        assert await found(world, query) == [], query


@pytest.mark.requirement("C11")
@pytest.mark.parametrize(
    "query",
    ["'", '"', '""', "a'b", '"unclosed', "*", "a*", "a AND", "OR", "NOT x", "NEAR(a b)", "terms:a", "-a",
     "a:*", "a & | !b", "(", ")", "\\", "%", "_", "\u0000", "💥", "🙂a", "-- ;", "' OR 1=1", "^a", "{a}",
     "a+b", "<->", "a" * 1000, '"' * 1000, " ".join("ab" * 300), "\u202e", "½", "㈱", "ﬁ"],
)  # fmt: skip
async def test_no_character_is_special_to_the_database(world: ServerWorld, query: str) -> None:
    conversation = await world.conversation()
    await speak(world.http, conversation, "a", "a plain text OR not")
    await world.advance(1)
    answer = await world.http.get("/v1/messages/search", params={"q": query})
    assert answer.status_code in (200, 422)
    if answer.status_code == 422:
        assert answer.json()["code"] == "invalid_request"


@pytest.mark.requirement("C11")
async def test_bad_questions_are_refused(world: ServerWorld) -> None:
    for params in (
        {},
        {"q": "x" * 1001},
        {"q": "a", "limit": "0"},
        {"q": "a", "limit": "101"},
        {"q": "a", "after": "x"},
        {"q": "a", "after": "-1"},
    ):
        answer = await world.http.get("/v1/messages/search", params=params)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), params
    unknown = await search(world.http, "a", 404, conversation_id="con_none")
    assert unknown[0]["code"] == "conversation_not_found"
    assert await search(world.http, " ,. ") == []


@pytest.mark.requirement("C11")
async def test_a_hit_shows_the_words_in_their_surroundings(world: ServerWorld) -> None:
    conversation = await world.conversation("Garden")
    text = f"{'before ' * 60}the tomatoes,\nripe tomatoes\nand more {'after ' * 60}"
    message = await speak(world.http, conversation, "a", text)
    await world.advance(1)
    (hit,) = await search(world.http, "ripe tomato")
    assert hit["message_id"] == message["id"]
    assert (hit["conversation_name"], hit["archived"]) == ("Garden", False)
    assert (hit["actor"], hit["ordinal"]) == (message["actor"], 1)
    assert marked(hit) == ["tomatoes", "ripe", "tomatoes"]
    whole = shown(hit)
    assert whole.startswith("…before") and whole.endswith("…") and len(whole) < 250
    assert "the tomatoes, ripe tomatoes and more" in whole
    await speak(world.http, conversation, "b", "下周开会再议")
    await world.advance(1)
    (hit,) = await search(world.http, "开会")
    assert [(part["text"], part["hit"]) for part in hit["snippet"]] == [
        ("下周", False),
        ("开会", True),
        ("再议", False),
    ]


@pytest.mark.requirement("C12")
async def test_only_what_the_credential_sees_is_found(world: ServerWorld) -> None:
    shared, private = await world.conversation(), await world.conversation()
    eva, echo = await world.actor("user/eva"), await world.actor("operator/echo")
    every = await world.actor("operator/*")
    await world.invite(shared, "user/eva", "operator/echo")
    await speak(world.http, shared, "a", "needle shared")
    await speak(world.http, private, "b", "needle private", target="operator/planner")
    (child,) = (await get(world.http, "/conversations", parent_id=private))["items"]
    planner = await world.actor("operator/planner")
    await speak(planner, child["id"], "c", "needle working")
    await world.advance(1)
    for client, seen in (
        (world.http, ["needle working", "needle private", "needle shared"]),
        (eva, ["needle shared"]),
        (echo, ["needle shared"]),
        (planner, ["needle working", "needle private"]),
        (every, ["needle working", "needle private", "needle shared"]),
    ):
        assert [shown(hit) for hit in await search(client, "needle")] == seen
    within = await search(world.http, "needle", conversation_id=private)
    assert [shown(hit) for hit in within] == ["needle working", "needle private"]
    within = await search(world.http, "needle", conversation_id=child["id"])
    assert [shown(hit) for hit in within] == ["needle working"]
    refused = await search(eva, "needle", 404, conversation_id=private)
    assert refused[0]["code"] == "conversation_not_found"


@pytest.mark.requirement("C12")
async def test_traffic_between_programs_is_not_found_and_a_stream_after_its_end(world: ServerWorld) -> None:
    conversation = await world.conversation()
    block = {"id": "envelope", "type": "envelope", "envelope": {"type": "lineup.tool.invoke", "x": "needle"}}
    content = {"version": "1.1", "biz": "chat", "meta": {}, "blocks": [block]}
    await speak(world.http, conversation, "e", content=content, target="operator/echo")
    stream = await open_stream(world.http, conversation)
    await emit(world.http, stream["id"], set_text(1, "a needle in a stream"))
    assert await found(world, "needle") == []
    await end(world.http, stream["id"], 2)
    assert await found(world, "needle") == ["a needle in a stream"]
    await world.http.patch(f"/v1/conversations/{conversation}", json={"archived": True})
    (hit,) = await search(world.http, "needle")
    assert hit["archived"]


@pytest.mark.requirement("C13")
async def test_pages_hold_every_hit_once_the_newest_first(world: ServerWorld) -> None:
    conversation = await world.conversation()
    for number in range(7):
        await speak(world.http, conversation, f"k{number}", f"needle {number}")
    await world.advance(1)
    seen: list[str] = []
    after: str | None = None
    while True:
        params: dict[str, Any] = {"after": after} if after else {}
        page = await get(world.http, "/messages/search", q="needle", limit=3, **params)
        seen += [shown(hit) for hit in page["items"]]
        if page["next"] is None:
            break
        after = page["next"]
        await speak(world.http, conversation, f"late{after}", "a late needle")
        await world.advance(1)
    assert seen == [f"needle {number}" for number in reversed(range(7))]


@pytest.mark.requirement("C13")
async def test_what_no_hint_told_of_is_found_after_a_restart(
    world: ServerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = await world.conversation()
    with monkeypatch.context() as deaf:
        deaf.setattr(Bus, "publish", lambda *_: None)
        for number in range(120):
            await speak(world.http, conversation, f"k{number}", f"needle number{number}")
    assert await search(world.http, "needle") == []
    await world.restart()
    assert await found(world, "number77") == ["needle number77"]
    await world.restart()
    await world.server.care.indexing.index(conversation)
    assert len(await found(world, "needle", limit=100)) == 100
