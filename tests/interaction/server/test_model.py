"""Random histories against a small model, with restarts between: what the server tells equals the model."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lineloop.testing.server_world import ServerWorld, server_world

ACTORS = ("operator/a", "operator/b", "user/local")


@dataclass(slots=True)
class Told:
    """A message as the model has it."""

    id: str
    actor: str
    target: str | None
    ordinal: int
    offset: int | None
    text: str = ""
    revision: int = 0


@dataclass(slots=True)
class Model:
    messages: list[Told] = field(default_factory=list[Told])
    position: dict[str, int] = field(default_factory=dict[str, int])
    committed: dict[str, int] = field(default_factory=dict[str, int])

    def inbox(self, actor: str, after: int) -> list[Told]:
        readable = [
            m
            for m in self.messages
            if m.offset is not None and m.offset > after
            if m.target == actor or (m.target is None and m.actor != actor)
        ]
        return sorted(readable, key=lambda m: m.offset or 0)

    def takes_part(self, actor: str) -> bool:
        return actor == "user/local" or any(actor in (m.actor, m.target) for m in self.messages)

    @property
    def last_offset(self) -> int:
        return max((m.offset or 0 for m in self.messages), default=0)


def wire(actor: str) -> dict[str, str]:
    kind, _, key = actor.rpartition("/")
    return {"kind": kind, "key": key}


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.context = server_world(Path(self.folder.name))
        self.world: ServerWorld = self.loop.run_until_complete(self.context.__aenter__())
        self.conversation = self.loop.run_until_complete(self.world.conversation())
        self.model = Model()
        self.keys = 0

    def teardown(self) -> None:
        self.loop.run_until_complete(self.context.__aexit__(None, None, None))
        self.loop.close()
        self.folder.cleanup()

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        answer = self.loop.run_until_complete(self.world.http.post(f"/v1{path}", json=body))
        return answer.status_code, answer.json() if answer.content else None

    @property
    def here(self) -> str:
        return f"/conversations/{self.conversation}"

    @rule(actor=st.sampled_from(ACTORS), to=st.sampled_from([*ACTORS, None]), stream=st.booleans())
    def speak(self, actor: str, to: str | None, stream: bool) -> None:
        self.keys += 1
        body: dict[str, Any] = {"key": str(self.keys), "actor": wire(actor)}
        if to is not None:
            body["target"] = wire(to)
        body |= {"stream": True} if stream else {"text": f"text {self.keys}"}
        status, message = self.post(f"{self.here}/messages", body)
        assert status == 201, message
        assert self.post(f"{self.here}/messages", body) == (200, message)
        offset = None if stream else self.model.last_offset + 1
        told = Told(message["id"], actor, to, len(self.model.messages) + 1, offset)
        assert (message["ordinal"], message["offset"]) == (told.ordinal, told.offset)
        told.text = "" if stream else f"text {self.keys}"
        self.model.messages.append(told)

    def open_messages(self) -> list[Told]:
        return [message for message in self.model.messages if message.offset is None]

    @precondition(lambda self: self.open_messages())
    @rule(data=st.data(), text=st.text(max_size=3), stale=st.booleans())
    def append(self, data: st.DataObject, text: str, stale: bool) -> None:
        message = data.draw(st.sampled_from(self.open_messages()))
        seq = message.revision if stale and message.revision else message.revision + 1
        block = {"id": "t", "type": "text", "content": message.text + text}
        status, answer = self.post(
            f"/messages/{message.id}/patches", {"patches": [{"op": "set", "seq": seq, "block": block}]}
        )
        if seq == message.revision:
            assert status == (202 if not text else 409), answer
            return
        assert (status, answer["revision"]) == (202, seq)
        message.revision, message.text = seq, message.text + text

    @precondition(lambda self: self.open_messages())
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        message = data.draw(st.sampled_from(self.open_messages()))
        status, answer = self.post(f"/messages/{message.id}/end", {"seq": message.revision + 1})
        assert (status, answer["revision"]) == (202, message.revision + 1)
        message.revision += 1
        message.offset = self.model.last_offset + 1

    @rule(actor=st.sampled_from(ACTORS), limit=st.integers(1, 4))
    def poll(self, actor: str, limit: int) -> None:
        status, answer = self.post(f"{self.here}/poll", {"actor": wire(actor), "limit": limit})
        if not self.model.takes_part(actor):
            assert (status, answer["code"]) == (403, "not_participant")
            return
        committed = self.model.committed.get(actor, 0)
        expected = self.model.inbox(actor, committed)[:limit]
        assert [m["id"] for m in answer["messages"]] == [m.id for m in expected]
        position = expected[-1].offset or 0 if expected else committed
        assert (answer["position"], answer["committed"]) == (position, committed)
        self.model.position[actor] = max(self.model.position.get(actor, 0), position)

    @rule(actor=st.sampled_from(ACTORS), position=st.integers(0, 12))
    def commit(self, actor: str, position: int) -> None:
        status, answer = self.post(f"{self.here}/commit", {"actor": wire(actor), "position": position})
        if not self.model.takes_part(actor):
            assert status == 403, answer
        elif position > max(self.model.position.get(actor, 0), self.model.committed.get(actor, 0)):
            assert (status, answer["code"]) == (409, "position_conflict")
        else:
            assert status == 204, answer
            self.model.committed[actor] = max(self.model.committed.get(actor, 0), position)

    @rule(seconds=st.sampled_from([-3600, 3600]))
    def restart(self, seconds: int) -> None:
        self.world.clock.jump(seconds)
        self.loop.run_until_complete(self.world.restart())

    @invariant()
    def history_is_the_models(self) -> None:
        path = f"/v1{self.here}/messages?limit=500"
        items = self.loop.run_until_complete(self.world.http.get(path)).json()["items"]
        assert [
            (m["id"], m["offset"], m["revision"], "".join(b["content"] for b in m["content"]["blocks"]))
            for m in items
        ] == [(m.id, m.offset, m.revision, m.text) for m in self.model.messages]


TestHistories = pytest.mark.slow(Histories.TestCase)
TestHistories.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
