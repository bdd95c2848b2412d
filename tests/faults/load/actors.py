"""Who takes part in the load: people who write and answer, programs that stream, consume, ask and watch.

Each does what a careful client does: the same key or seq until it is acknowledged, one update at a time,
commit only what was handled. What each was told goes into the history.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx
from httpx_sse import EventSource
from tests.faults.load.calls import Caller, Json
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from lineloop.kit import json
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import PatchInvalid
from lineloop.protocol.patches import apply_patch, empty_content
from lineloop.testing.history import (
    Answered,
    Appended,
    Asked,
    Committed,
    Delivered,
    Ended,
    History,
    Outcome,
    Polled,
    Sight,
    Spoke,
    Viewed,
    Watched,
    fingerprint,
)

PERSON = "user/local"
POLL_LIMIT = 50


def text_of(text: str) -> Json:
    return {**empty_content(), "blocks": [{"id": "text", "type": "text", "content": text}]}


def wire(actor: str) -> Json:
    return Actor.parse(actor).to_wire()


@dataclass(slots=True)
class Scene:
    """What all of them share. `stopping`: nobody begins anything new."""

    history: History
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    pace: float = 1.0

    async def pause(self, caller: Caller, seconds: float) -> bool:
        """Waits about so long; whether to go on."""
        try:
            async with asyncio.timeout(seconds * self.pace * caller.dice.uniform(0.3, 1.7)):
                await self.stopping.wait()
        except TimeoutError:
            return True
        return False


async def speak(
    scene: Scene, caller: Caller, conversation: str, actor: str, key: str, text: str, target: str | None
) -> Json:
    content = text_of(text)
    body: Json = {"key": key, "content": content}
    if target is not None:
        body["target"] = wire(target)
    digest = fingerprint(content)
    return await caller.until_done(
        "POST",
        f"/conversations/{conversation}/messages",
        body,
        history=scene.history,
        record=lambda began, ended, outcome, told: Spoke(
            began, ended, outcome, conversation, actor, key, target, digest, None, told.get("id"),
            told.get("ordinal"), told.get("offset"),
        ),
    )  # fmt: skip


async def write(scene: Scene, caller: Caller, conversation: str, operator: str, name: str) -> None:
    """A person who writes to the operator, now and then to everybody."""
    number = 0
    while await scene.pause(caller, 1.0):
        number += 1
        target = operator if caller.dice.random() < 0.8 else None
        await speak(scene, caller, conversation, PERSON, f"{name}-{number}", f"line {number}", target)


async def stream(scene: Scene, caller: Caller, conversation: str, operator: str, name: str) -> None:
    """A program that writes one streaming message after the other, word by word."""
    number = 0
    while await scene.pause(caller, 0.5):
        number += 1
        key = f"{name}-{number}"
        opened = await caller.until_done(
            "POST",
            f"/conversations/{conversation}/messages",
            {"key": key, "stream": True},
            history=scene.history,
            record=lambda began, ended, outcome, told, key=key: Spoke(
                began, ended, outcome, conversation, operator, key, None, None, empty_content(),
                told.get("id"), told.get("ordinal"), told.get("offset"),
            ),
        )  # fmt: skip
        await _fill(scene, caller, opened["id"])


async def _fill(scene: Scene, caller: Caller, message_id: str) -> None:
    seq = 1
    first: Json = {"op": "set", "seq": 1, "block": {"id": "t", "type": "text", "content": ""}}
    await _append(scene, caller, message_id, first)
    for word in range(caller.dice.randrange(3, 40)):
        if scene.stopping.is_set():
            break
        await scene.pause(caller, 0.15)
        seq += 1
        block = {"id": "t", "content": f"word {word} "}
        await _append(
            scene, caller, message_id, {"op": "append", "seq": seq, "mask": "block.content", "block": block}
        )
    status = caller.dice.choice(("completed", "completed", "failed"))
    await caller.until_done(
        "POST",
        f"/messages/{message_id}/end",
        {"seq": seq + 1, "status": status},
        history=scene.history,
        record=lambda began, ended, outcome, _: Ended(began, ended, outcome, message_id, seq + 1, status),
    )


async def _append(scene: Scene, caller: Caller, message_id: str, patch: Json) -> None:
    await caller.until_done(
        "POST",
        f"/messages/{message_id}/patches",
        {"patches": [patch]},
        history=scene.history,
        record=lambda began, ended, outcome, _: Appended(
            began, ended, outcome, message_id, patch["seq"], patch
        ),
    )


async def commit(scene: Scene, caller: Caller, conversation: str, actor: str, position: int) -> None:
    await caller.until_done(
        "POST",
        f"/conversations/{conversation}/commit",
        {"position": position},
        history=scene.history,
        record=lambda began, ended, outcome, _: Committed(
            began, ended, outcome, conversation, actor, position
        ),
    )


async def poll(scene: Scene, caller: Caller, conversation: str, actor: str) -> Json:
    """Everything that is not committed, oldest first, at most POLL_LIMIT."""

    def record(began: float, ended: float, outcome: Outcome, told: Json) -> Polled | None:
        if outcome is not Outcome.DONE:
            return None
        got = tuple((message["offset"], message["id"]) for message in told["messages"])
        full = len(got) >= POLL_LIMIT
        return Polled(began, ended, conversation, actor, None, got, told["position"], told["committed"], full)

    return await caller.until_done(
        "POST",
        f"/conversations/{conversation}/poll",
        {"limit": POLL_LIMIT},
        history=scene.history,
        record=record,
    )


async def _handle(scene: Scene, caller: Caller, conversation: str, actor: str, message: Json) -> None:
    """An answer to everything that a person said to this operator."""
    if message["purpose"] == "input" and message["target"] == wire(actor):
        await speak(scene, caller, conversation, actor, f"re-{message['id']}", f"re {message['key']}", PERSON)


async def consume_by_polling(scene: Scene, caller: Caller, conversation: str, actor: str) -> None:
    """Polls, answers, commits; goes on until nothing is left after the end of the load."""
    while True:
        told = await poll(scene, caller, conversation, actor)
        for message in told["messages"]:
            await _handle(scene, caller, conversation, actor, message)
        if told["position"] > told["committed"]:
            await commit(scene, caller, conversation, actor, told["position"])
        elif not await scene.pause(caller, 0.3):
            return


async def consume_by_link(scene: Scene, caller: Caller, conversation: str, actor: str, name: str) -> None:
    """Takes what is pushed, answers over HTTP and commits on the link; a broken link is made again."""
    session = 0
    while not scene.stopping.is_set():
        session += 1
        try:
            await _one_link(scene, caller, conversation, actor, f"{name}-{session}")
        except (OSError, WebSocketException, TimeoutError, EOFError):
            await asyncio.sleep(0.05)
    # What the link has not shown is taken by polling, so that nothing is left waiting.
    await consume_by_polling(scene, caller, conversation, actor)


async def _one_link(scene: Scene, caller: Caller, conversation: str, actor: str, session: str) -> None:
    address = caller.url().replace("http", "ws", 1) + "/v1/link"
    async with connect(address, compression=None, max_size=None, open_timeout=5, close_timeout=1) as socket:
        await socket.send(json.dumps({"hello": {"token": caller.token, "protocol": 1}}))
        asked: dict[str, tuple[float, int]] = {}
        number = 0
        while not scene.stopping.is_set():
            try:
                async with asyncio.timeout(1.0):
                    frame: Json = json.loads(await socket.recv())
            except TimeoutError:
                continue
            if "drain" in frame:
                return
            _settle(scene, conversation, actor, asked, frame)
            if "deliver" not in frame:
                continue
            at = time.monotonic()
            for message in frame["deliver"]:
                scene.history.add(
                    Delivered(at, session, conversation, actor, message["offset"], message["id"])
                )
            for message in frame["deliver"]:
                await _handle(scene, caller, conversation, actor, message)
            number += 1
            position = frame["deliver"][-1]["offset"]
            asked[str(number)] = (time.monotonic(), position)
            commits = [{"conversation_id": conversation, "position": position}]
            scene.history.add(_tried(asked[str(number)], conversation, actor))
            await socket.send(json.dumps({"id": str(number), "commit": commits}))


def _tried(asked: tuple[float, int], conversation: str, actor: str) -> Committed:
    began, position = asked
    return Committed(began, began, Outcome.UNKNOWN, conversation, actor, position)


def _settle(
    scene: Scene, conversation: str, actor: str, asked: dict[str, tuple[float, int]], frame: Json
) -> None:
    """What the link says became of a commit. A refused one is repeated by the next delivery."""
    if "results" not in frame or frame.get("id") not in asked:
        return
    began, position = asked.pop(frame["id"])
    outcome = Outcome.DONE if frame["results"][0].get("ok") else Outcome.REFUSED
    scene.history.add(Committed(began, time.monotonic(), outcome, conversation, actor, position))


async def ask(
    scene: Scene, caller: Caller, person: Caller, conversation: str, actor: str, name: str
) -> list[str]:
    """Asks the person again and again; some questions are answered twice, some not at all. Their ids."""
    number = 0
    ids: list[str] = []
    while await scene.pause(caller, 2.0):
        number += 1
        key = f"{name}-{number}"
        choices = [{"value": "y", "label": "Yes"}, {"value": "n", "label": "No"}]
        body: Json = {"kind": "ask", "effect_key": key, "to": wire(PERSON), "text": f"{key}?"}
        body |= {"choices": choices, "timeout_ms": caller.dice.choice((1_500, 8_000))}
        question = await caller.until_done(
            "POST",
            f"/conversations/{conversation}/questions",
            body,
            history=scene.history,
            record=lambda began, ended, outcome, told, key=key: Asked(
                began, ended, outcome, conversation, actor, key, told.get("id")
            ),
        )
        ids.append(question["id"])
        if caller.dice.random() < 0.7:
            await asyncio.sleep(caller.dice.uniform(0.0, 2.0))
            replies = [_answer(scene, person, question["id"]) for _ in range(caller.dice.choice((1, 1, 2)))]
            await asyncio.gather(*replies)
    return ids


async def _answer(scene: Scene, person: Caller, question_id: str) -> None:
    value = person.dice.choice(("y", "n", None))
    body: Json = {"reply_to_id": question_id, **({"dismiss": True} if value is None else {"value": value})}
    state = "dismissed" if value is None else "success"
    await person.until_done(
        "POST",
        f"/questions/{question_id}/answer",
        body,
        history=scene.history,
        record=lambda began, ended, outcome, _: Answered(began, ended, outcome, question_id, state, value),
        refused=(409,),
    )


class Viewer:
    """A page that follows a conversation, comes back after every break, and keeps what it was shown."""

    def __init__(self, scene: Scene, caller: Caller, root_id: str, name: str) -> None:
        self._scene = scene
        self._caller = caller
        self._root_id = root_id
        self.name = name
        self._last: str | None = None
        self._known: dict[str, tuple[int, Json]] = {}
        self.ready = asyncio.Event()
        scene.history.add(Watched(name, root_id))

    async def run(self, client: httpx.AsyncClient) -> None:
        """Until cancelled."""
        while True:
            try:
                async for event, data, event_id in self._events(client):
                    self._take(event, data)
                    self._last = event_id or self._last
            except (httpx.HTTPError, TimeoutError):
                pass
            await asyncio.sleep(0.05 * self._caller.dice.uniform(0.5, 1.5))

    async def _events(self, client: httpx.AsyncClient) -> AsyncIterator[tuple[str, Json, str]]:
        headers = dict(self._caller.headers)
        if self._last is not None:
            headers["last-event-id"] = self._last
        address = f"{self._caller.url()}/v1/conversations/{self._root_id}/stream"
        timeout = httpx.Timeout(5.0, read=20.0)
        async with client.stream("GET", address, headers=headers, timeout=timeout) as response:
            if response.status_code != 200:
                return
            async for event in EventSource(response).aiter_sse():
                yield event.event, event.json(), event.id

    def _take(self, event: str, data: Json) -> None:
        if event == "ping":
            self.ready.set()
        elif event == "message":
            message = data["message"]
            self._known[message["id"]] = (message["revision"], message["content"])
            self._see(message["id"], Sight.WHOLE, message["content"], message["status"])
        elif event == "patch":
            self._patch(data["message_id"], data["patch"])

    def _patch(self, message_id: str, patch: Json) -> None:
        revision, content = self._known.get(message_id, (-1, {}))
        if patch["seq"] <= revision:
            return
        try:
            content = apply_patch(content, patch)
        except PatchInvalid:
            content = {}
        self._known[message_id] = (patch["seq"], content)
        self._see(message_id, Sight.PATCH, patch)
        if patch["seq"] % 8 == 0:
            self._see(message_id, Sight.MODEL, content)

    def _see(self, message_id: str, sight: Sight, what: Json, status: str = "") -> None:
        revision = self._known[message_id][0]
        digest = fingerprint(what)
        self._scene.history.add(Viewed(self.name, message_id, sight, revision, digest, status))
        if status and status != "streaming":
            # Only the number is needed of what has ended: a long load does not keep every text.
            self._known[message_id] = (revision, {})

    def shown(self) -> set[str]:
        return set(self._known)
