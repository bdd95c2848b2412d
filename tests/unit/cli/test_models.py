"""Finding and choosing a model: what is found, what is kept, who sees the key, which choice counts."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lineloop.cli.doctor import run_checks
from lineloop.cli.failures import CommandFailed
from lineloop.cli.models import MODEL_FILE, LocalModels, check_model
from lineloop.harness.model_targets import FAMILIES, Family
from lineloop.kit import json
from lineloop.kit.clock import SystemClock
from lineloop.protocol.errors import LoopError
from lineloop.settings import Settings
from lineloop.testing.model_server import FakeModelServer, Reply, fake_model_server

KEY = "sk-very-secret-7731"


def family(name: str, base_url: str) -> Family:
    known = FAMILIES[name]
    return Family(known.id, known.label, base_url, known.is_local)


def models_of(folder: Path, *families: Family, **settings: Any) -> LocalModels:
    return LocalModels(Settings(folder, **settings), SystemClock(), families or None)


@pytest.fixture
def server() -> Generator[FakeModelServer]:
    with fake_model_server(lambda _: Reply(("hi",)), models=("small", "qwen3:latest", "nomic-embed")) as made:
        yield made


@contextmanager
def other_program(answer: bytes | None) -> Generator[str]:
    """Something else on a port: it sends `answer` to whoever comes, or nothing at all."""
    stop = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if answer is None:
                stop.wait(30)
            elif self.request.recv(4096):
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as program:
        thread = threading.Thread(target=program.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{program.server_address[1]}/v1"
        finally:
            stop.set()
            program.shutdown()
            thread.join()


async def refused(models: LocalModels, target: str, key: str | None = None) -> str:
    before = models.current()
    with pytest.raises(LoopError) as error:
        await models.choose(target, key)
    assert models.current() == before
    assert key is None or not key or key not in error.value.message
    return str(error.value.code)


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def page(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


async def test_servers_that_answer_are_found_with_what_can_answer(
    tmp_path: Path, server: FakeModelServer
) -> None:
    models = models_of(
        tmp_path,
        family("openai", server.base_url),
        family("ollama", server.base_url),
        family("vllm", "http://127.0.0.1:9/v1"),
    )
    (found,) = await models.find()
    assert found.to_wire() == {
        "id": "ollama",
        "label": "Ollama",
        "base_url": server.base_url,
        "models": ["small", "qwen3:latest"],
    }


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        page(b"<html>hello</html>"),
        page(b'{"data": [{"id": "small"}]}'),
        page(b'{"object": "list", "data": {"id": "small"}}'),
        page(b'{"object": "list", "data": []}', b"401 Unauthorized"),
        page(b"[1, 2]"),
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=str,
)
async def test_another_program_on_the_port_is_not_listed(tmp_path: Path, answer: bytes | None) -> None:
    with other_program(answer) as url:
        begun = asyncio.get_running_loop().time()
        assert await models_of(tmp_path, family("ollama", url)).find() == []
        assert asyncio.get_running_loop().time() - begun < 8


async def test_a_server_without_a_model_is_found_empty(tmp_path: Path) -> None:
    with other_program(page(b'{"object": "list", "data": null}')) as url:
        (found,) = await models_of(tmp_path, family("ollama", url)).find()
    assert found.models == ()


async def test_odd_names_of_models_are_left_out(tmp_path: Path) -> None:
    items = ["fine", "", " blank", "x" * 500, "line\nbreak", 7, "bidi\u202e"]
    body = json.dumps({"object": "list", "data": [*({"id": item} for item in items), "text"]}).encode()
    with other_program(page(body)) as url:
        (found,) = await models_of(tmp_path, family("ollama", url)).find()
    assert found.models == ("fine",)


async def test_the_demo_is_a_choice_that_is_kept(tmp_path: Path) -> None:
    models = models_of(tmp_path)
    assert models.current().to_wire() == {"target": "demo", "label": "demo, not AI", "chosen": False}
    assert (await models.choose("demo")).chosen
    assert models_of(tmp_path).current().to_wire() == {
        "target": "demo",
        "label": "demo, not AI",
        "chosen": True,
    }


@pytest.mark.parametrize("name", ["small", "qwen3", "qwen3:latest"])
async def test_a_chosen_model_is_kept_over_a_restart(
    tmp_path: Path, server: FakeModelServer, name: str
) -> None:
    ollama = family("ollama", server.base_url)
    chosen = await models_of(tmp_path, ollama).choose(f"ollama:{name}")
    assert chosen.to_wire() == {"target": f"ollama:{name}", "label": f"{name} (Ollama)", "chosen": True}
    assert models_of(tmp_path, ollama).current() == chosen


async def test_a_key_is_kept_privately_for_its_address_and_never_comes_back(
    tmp_path: Path, server: FakeModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.key = KEY
    openai = family("openai", server.base_url)
    models = models_of(tmp_path, openai)
    chosen = await models.choose("openai:small", f" {KEY}\n")
    assert KEY not in f"{chosen}{chosen.to_wire()}{await models.find()}"
    assert models.endpoint_of(openai).key == KEY
    file = tmp_path / MODEL_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    assert files_in(tmp_path) == [MODEL_FILE]
    again = models_of(tmp_path, openai)
    assert again.endpoint_of(openai).key == KEY
    elsewhere = family("openai", "https://elsewhere.example/v1")
    assert models_of(tmp_path, elsewhere).endpoint_of(elsewhere).key is None
    run_checks(Settings(tmp_path), as_json=True)
    told = capsys.readouterr().out
    assert "openai:small" in told
    assert KEY not in told


async def test_another_choice_forgets_no_key_so_that_runs_under_way_can_end(
    tmp_path: Path, server: FakeModelServer
) -> None:
    openai = family("openai", server.base_url)
    models = models_of(tmp_path, openai)
    await models.choose("openai:small", KEY)
    await models.choose("demo")
    assert models.endpoint_of(openai).key == KEY
    assert (await models.choose("openai:small")).target == "openai:small"


async def test_a_choice_that_cannot_work_is_refused_and_changes_nothing(
    tmp_path: Path, server: FakeModelServer
) -> None:
    gone = family("vllm", "http://127.0.0.1:9/v1")
    models = models_of(
        tmp_path,
        family("ollama", server.base_url),
        family("openai", server.base_url.replace("127.0.0.1", "localhost.example")),
        gone,
    )
    assert await refused(models, "ollama:large") == "model_unknown"
    assert await refused(models, "vllm:small") == "model_unreachable"
    assert await refused(models, "openai:small") == "model_unauthorized"
    server.key = KEY
    assert await refused(models, "ollama:small", "sk-wrong") == "model_unauthorized"
    for target in ("", "ollama", "ollama:", "nobody:small", "demo:x", "ollama: small", "ollama:" + "x" * 200):
        assert await refused(models, target) == "harness_target_unknown"
    for key in ("two words", "ü" * 10, "line\nbreak", "x" * 5000):
        assert await refused(models, "ollama:small", key) == "invalid_request"
    assert not (tmp_path / MODEL_FILE).exists()


async def test_a_provider_without_a_list_is_believed(tmp_path: Path) -> None:
    with other_program(page(b"not found", b"404 Not Found")) as url:
        models = models_of(tmp_path, family("openai", url))
        assert (await models.choose("openai:small", KEY)).target == "openai:small"


async def test_the_persons_choice_counts_until_the_environment_says_something_new(
    tmp_path: Path, server: FakeModelServer
) -> None:
    ollama = family("ollama", server.base_url)
    models = models_of(tmp_path, ollama, model="demo")
    assert models.current().to_wire() == {"target": "demo", "label": "demo, not AI", "chosen": True}
    await models.choose("ollama:small")
    assert models_of(tmp_path, ollama, model="demo").target == "ollama:small"
    assert models_of(tmp_path, ollama, model="ollama:qwen3").target == "ollama:qwen3"
    assert models_of(tmp_path, ollama).target == "demo"


@pytest.mark.parametrize(
    "kept", [b"", b"{", b"[]", b'{"target": 7}', b'{"target": "nobody:x"}', b'{"target": "demo", "keys": 7}']
)
async def test_a_broken_file_is_no_choice_and_no_failure(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / MODEL_FILE).write_bytes(kept)
    models = models_of(tmp_path)
    assert models.target == "demo"
    assert models.endpoint_of(FAMILIES["openai"]).key is None
    assert (await models.choose("demo")).chosen


def test_a_start_with_a_model_or_address_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for good in (None, "demo", "openai:gpt", "ollama:qwen3:8b", "lmstudio:qwen/qwen3-4b"):
        check_model(Settings(tmp_path, model=good))
    for bad in ("gpt-5", "openai:", "nobody:x", "demo:x"):
        with pytest.raises(CommandFailed, match="LINELOOP_MODEL"):
            check_model(Settings(tmp_path, model=bad))
    for url in ("gpu:8000", "ftp://gpu/", "http://", "http://name:word@gpu/v1", "http://gpu:99999/v1"):
        with pytest.raises(CommandFailed, match="address") as refusal:
            check_model(Settings(tmp_path, model_urls={"vllm": url}))
        assert "word" not in refusal.value.message.replace("password", "")


async def test_without_the_extra_a_model_is_refused_with_the_way_to_get_it(
    tmp_path: Path, server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineloop.cli.models.LIBRARY", "openai_that_is_not_installed")
    models = models_of(tmp_path, family("ollama", server.base_url))
    assert await refused(models, "ollama:small") == "unsupported"
    assert (await models.choose("demo")).chosen
