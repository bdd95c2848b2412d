"""A model answers in a running system: chosen in a page, kept over kill -9, its key seen by nobody."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.blackbox.system import System, envelope_of, eventually
from tests.blackbox.test_shell import a_page

from lineloop.testing.model_server import FakeModelServer, Reply, fake_model_server, starts_a_focus

pytestmark = pytest.mark.slow

KEY = "sk-very-secret-7731"
ASSISTANT = {"kind": "operator", "key": "assistant"}
STARTED = "Started: tea 🍵, one minute; it is running."


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Generator[FakeModelServer]:
    with fake_model_server(starts_a_focus, key=KEY) as made:
        monkeypatch.setenv("OPENAI_BASE_URL", made.base_url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        yield made


@pytest.fixture
def system(tmp_path: Path) -> Generator[System]:
    made = System(tmp_path)
    made.model = None
    yield made
    made.close()


class Talk:
    """A conversation with the assistant."""

    def __init__(self, system: System) -> None:
        self.system = system
        conversation = system.call("POST", "/conversations", {"name": "models"})["id"]
        self.path = f"/conversations/{conversation}/messages"

    def say(self, text: str) -> None:
        self.system.call("POST", self.path, {"key": text, "text": text, "target": ASSISTANT})

    def messages(self) -> list[dict[str, Any]]:
        return self.system.call("GET", f"{self.path}?purpose=all&limit=200")["items"]

    def answers(self, count: int = 1) -> list[str]:
        return [block["content"] for block in self.blocks(count)]

    def blocks(self, count: int = 1) -> list[dict[str, Any]]:
        """The first block of each answer."""

        def said() -> list[dict[str, Any]]:
            spoken = [m for m in self.messages() if m["actor"] == ASSISTANT and m["purpose"] == "speech"]
            return [m["content"]["blocks"][0] for m in spoken] if len(spoken) >= count else []

        return eventually(said, f"{count} answers", 40.0)

    def started(self) -> tuple[int, int]:
        """How many calls were made, and how many started."""
        envelopes = [envelope_of(m) for m in self.messages() if m["purpose"] == "envelope"]
        calls = {e["correlation"]["call_id"] for e in envelopes if e["type"] == "lineup.tool.invoke"}
        return len(calls), sum(e["payload"].get("stage") == "started" for e in envelopes)


def places_of(secret: str, folder: Path) -> set[str]:
    """The files under a folder that have a text in them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.name for path in files if secret.encode() in path.read_bytes()}


def test_a_model_is_chosen_on_the_first_screen_and_kept_and_its_key_stays_in_its_file(
    system: System, server: FakeModelServer, tmp_path: Path
) -> None:
    system.host = "web"
    system.start()
    with a_page(system, system.ready["shell_code"]) as page:
        assert page.welcome["model"] == {"target": "demo", "label": "demo, not AI", "chosen": False}
        assert isinstance(page.ask("models.find")["servers"], list)
        talk = Talk(system)
        talk.say("hello")
        assert "demo, not AI" in talk.answers()[0]
        chosen = {"target": "openai:small", "label": "small (OpenAI)", "chosen": True}
        assert page.ask("models.choose", target="openai:small", key=KEY) == {"model": chosen}
        talk.say("start a focus")
        page.shows()
        assert talk.answers(2)[1] == STARTED
        # What a model writes is markdown; the demo says plain words.
        assert [block["type"] for block in talk.blocks(2)] == ["text", "markdown"]
    assert talk.started() == (1, 1)
    asked = server.asked
    system.kill()
    system.start()
    with a_page(system, system.ready["shell_code"]) as page:
        assert page.welcome["model"] == chosen
    talk.say("/echo and once more")
    talk.answers(3)
    assert server.asked > asked
    command = [sys.executable, "-m", "lineloop.cli", "doctor", "--data-dir", str(system.data_dir)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "model: openai:small" in told
    assert system.stop() == 0
    assert places_of(KEY, tmp_path) == {"model.json"}
    assert KEY not in told


def test_a_run_under_way_ends_with_the_model_it_began_with_and_the_next_uses_the_new_one(
    system: System, server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server.answer = lambda _: Reply(("From the model.",))
    server.open.clear()
    system.host, system.model = "web", "openai:small"
    system.start()
    talk = Talk(system)
    with a_page(system, system.ready["shell_code"]) as page:
        talk.say("one")
        eventually(lambda: server.asked, "the model is asked", 40.0)
        assert page.ask("models.choose", target="demo")["model"]["target"] == "demo"
    server.open.set()
    assert talk.answers() == ["From the model."]
    talk.say("hello")
    assert "demo, not AI" in talk.answers(2)[1]
    assistant = next(one for one in system.call("GET", "/actors")["items"] if one["key"] == "assistant")
    assert "demo, not AI" in assistant["description"]


@pytest.mark.parametrize(
    "site",
    [
        "harness.tool_dispatch.before_commit",
        "harness.tool_dispatch.after_commit",
        "harness.tool_result.before_commit",
        "harness.tool_result.after_commit",
        "harness.finish.before_commit",
    ],
)
def test_a_recorded_response_is_not_asked_for_again_after_kill_9_and_the_tool_runs_once(
    system: System, server: FakeModelServer, monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    system.model = "openai:small"
    system.start(f"{site}:kill")
    talk = Talk(system)
    talk.say("start a focus")
    assert system.died(40.0) == -9
    system.start()
    assert talk.answers() == [STARTED]
    assert talk.started() == (1, 1)
    # A response whose consequence was not stored is the only one that is asked for again.
    lost = site in ("harness.tool_dispatch.before_commit", "harness.finish.before_commit")
    assert server.asked == (3 if lost else 2)
    assert places_of(KEY, system.data_dir) == set()
