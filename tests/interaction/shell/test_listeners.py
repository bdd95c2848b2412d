"""Who gets in, and what the two listeners give to whom. Names with an id are cases of the attack list."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.interaction.shell.shell_world import (
    ShellPage,
    ShellWorld,
    SurfaceFrame,
    shell_world,
    with_surface,
)
from websockets.exceptions import InvalidStatus

from lineloop.device.host.web import host as host_module
from lineloop.device.host.web.access import CODE_LIFE_MS
from lineloop.device.host.web.frames import MAX_PAGE_FRAME_BYTES
from lineloop.device.host.web.handshake import Talk, page_proof, root_of, verifier_of
from lineloop.device.migrations import HEAD
from lineloop.device.migrations.first_ddl import first_statements
from lineloop.device.store import shell as store
from lineloop.kit import json
from lineloop.kit.schema import ensure_schema
from lineloop.protocol.errors import StorageUnavailable
from lineloop.testing.device_world import CONVERSATION
from lineloop.testing.shell_page import PageProof
from lineloop.testing.waiting import until

HELLO: dict[str, Any] = {"tab": "t", "visible": True, "focused": True, "language": "en", "versions": [3]}


async def raw(port: int, request: bytes) -> bytes:
    """Everything that a connection answers to these bytes, until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


def port_of(origin: str) -> int:
    return int(origin.rpartition(":")[2])


async def a_surface(world: ShellWorld) -> tuple[ShellPage, SurfaceFrame]:
    page = await world.page()
    await page.ask("apps.launch", app_scope="pomodoro", conversation_id=CONVERSATION)
    shown = await page.shown()
    return page, await SurfaceFrame.open(page, shown["instance_id"])


# ── letting pages in ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_code_opens_once_and_the_key_it_gave_opens_again(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        first = PageProof(code, world.shell_url)
        page = await world.connect()
        challenge = await page.ask("hello", **first.hello, **HELLO)
        await page.ask("prove", proof=first.answer(challenge))
        assert len(first.key) >= 43
        await world.page(key=first.key)
        used = await world.connect()
        again = PageProof(code, world.shell_url)
        assert await used.refused("hello", **again.hello, **HELLO) == "unauthorized"
        assert await used.close_code() == 4401


@pytest.mark.requirement("H07")
async def test_h07_a_device_is_asked_for_its_proof_and_a_page_that_cannot_give_its_own_stays_out(
    tmp_path: Path,
) -> None:
    async with shell_world(tmp_path) as world:
        known = await world.page()
        code = await world.host.new_code()
        for secret in (code, known.key):
            proof = PageProof(secret, world.shell_url)
            for wrong in ("", "no hex", "00" * 32, proof.hello["name"]):
                page = await world.connect()
                challenge = await page.ask("hello", **proof.hello, **HELLO)
                assert proof.answer(challenge)
                assert await page.refused("prove", proof=wrong or "0") == "unauthorized"
                assert await page.close_code() == 4401
        # Nobody was let in by that, and neither code nor key was used up.
        await world.page(key=known.key)
        page = await world.connect()
        proof = PageProof(code, world.shell_url)
        await page.ask("prove", proof=proof.answer(await page.ask("hello", **proof.hello, **HELLO)))


async def test_a_proof_counts_on_its_own_connection_only(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        known = await world.page()
        proof = PageProof(known.key, world.shell_url)
        first, second = await world.connect(), await world.connect()
        said = proof.answer(await first.ask("hello", **proof.hello, **HELLO))
        await second.ask("hello", **proof.hello, **HELLO)
        assert await second.refused("prove", proof=said) == "unauthorized"
        await first.ask("prove", proof=said)


async def test_of_two_pages_with_one_code_one_is_let_in(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        proofs = [PageProof(code, world.shell_url) for _ in range(2)]
        pages = [await world.connect() for _ in proofs]
        said = [
            proof.answer(await page.ask("hello", **proof.hello, **HELLO))
            for page, proof in zip(pages, proofs, strict=True)
        ]
        await pages[0].ask("prove", proof=said[0])
        assert await pages[1].refused("prove", proof=said[1]) == "unauthorized"


@pytest.mark.requirement("H07")
async def test_h07_wrong_expired_and_missing_credentials_are_refused_alike(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        late = await world.host.new_code()
        await world.clock.advance(CODE_LIFE_MS / 1000 + 1)
        for secret in (late, "guessed", None):
            page = await world.connect()
            said = {} if secret is None else PageProof(secret, world.shell_url).hello
            assert await page.refused("hello", **said, **HELLO) == "unauthorized"
            assert await page.close_code() == 4401
        other = await world.connect()
        assert await other.refused("models.find") == "bridge_invalid"
        assert await other.close_code() == 4400


@pytest.mark.requirement("H07")
async def test_h07_nothing_that_a_copy_of_an_older_database_holds_lets_anybody_in(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite3"
    key = "a-key-of-the-first-version-43-characters-xx"
    digest = sha256(key.encode()).digest()
    _first_schema(path, digest)
    ensure_schema(path, package="lineloop.device.migrations", head=HEAD)
    copy = tmp_path / f"old.sqlite3.before-{HEAD}"
    assert digest.hex().encode() not in copy.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM shell_keys").fetchone() == (0,)
    # The page that has this key is let in by a new link; the digest is worth nothing then either.
    async with shell_world(tmp_path) as world:
        known = await world.page()
        old_root = sha256(known.key.encode()).digest()
        page = await world.connect()
        proof = PageProof(known.key, world.shell_url)
        challenge = await page.ask("hello", **proof.hello, **HELLO)
        talk = Talk(world.shell_url, proof.hello["name"], proof.hello["nonce"], challenge["nonce"])
        assert await page.refused("prove", proof=page_proof(old_root, talk)) == "unauthorized"
        named = await world.connect()
        old = verifier_of(old_root).name
        assert await named.refused("hello", name=old, nonce="n" * 43, **HELLO) == "unauthorized"


def _first_schema(path: Path, digest: bytes) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in first_statements(sqlite=True):
            connection.execute(statement)
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.execute("INSERT INTO shell_keys VALUES ('rt', ?, 1, 1)", (digest.hex(),))


@pytest.mark.requirement("H07")
async def test_a_code_is_used_up_in_the_commit_that_keeps_its_key_and_outlives_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        await world.restart()
        proof = PageProof(code, world.shell_url)
        page = await world.connect()
        said = proof.answer(await page.ask("hello", **proof.hello, **HELLO))
        with monkeypatch.context() as broken:
            broken.setattr(store, "insert_key", _no_room)
            assert await page.refused("prove", proof=said) == "storage_unavailable"
        await world.restart()
        again = await world.connect()
        proof = PageProof(code, world.shell_url)
        await again.ask("prove", proof=proof.answer(await again.ask("hello", **proof.hello, **HELLO)))
        await world.page(key=proof.key)
        assert await world.device.rows("SELECT name FROM shell_codes") == []


def _no_room(*_: object, **__: object) -> None:
    raise StorageUnavailable("no room")


@pytest.mark.requirement("H07")
async def test_there_is_room_for_so_many_pages_however_many_prove_themselves_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_module, "MAX_PAGES", 2)
    async with shell_world(tmp_path) as world:
        codes = [await world.host.new_code() for _ in range(5)]
        pages = [await world.connect() for _ in codes]
        proofs = [PageProof(code, world.shell_url) for code in codes]
        proven = [
            proof.answer(await page.ask("hello", **proof.hello, **HELLO))
            for page, proof in zip(pages, proofs, strict=True)
        ]
        for page, said in zip(pages, proven, strict=True):
            await page.send(json.dumps({"v": 1, "id": "prove", "type": "prove", "payload": {"proof": said}}))
        await until(lambda: sum(page.connection.state.name != "OPEN" for page in pages) == 3)
        assert len(world.host.pages) == 2
        left = [page for page in pages if page.connection.state.name != "OPEN"]
        assert [await page.close_code() for page in left] == [4429] * 3
        # Whoever was turned away still has the code.
        assert len(await world.device.rows("SELECT name FROM shell_codes")) == 3


async def test_a_connection_that_does_not_say_hello_is_ended(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.connect()
        await world.clock.advance(5.1)
        assert await page.close_code() == 4408


async def test_pages_that_break_off_at_any_moment_harm_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_world(tmp_path) as world:
        for said in range(4):
            page = await world.connect()
            hello = {**HELLO, **PageProof(await world.host.new_code(), world.shell_url).hello}
            if said:
                await page.send(json.dumps({"v": 1, "id": "h", "type": "hello", "payload": hello}))
            for _ in range(said * 10):
                await page.send('{"v":1,"id":"1","type":"models.find","payload":{}}')
            page.connection.transport.abort()
        await until(lambda: not world.host.pages)
        assert await (await world.page()).refused("models.find") == "unsupported"
    said_out = capsys.readouterr()
    assert "Traceback" not in said_out.out + said_out.err
    assert "task_crashed" not in said_out.out + said_out.err


async def test_a_shell_of_another_version_is_told_so(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.connect()
        old = {**HELLO, "versions": [1], "code": await world.host.new_code()}
        assert await page.refused("hello", **old) == "protocol_version_unsupported"
        assert await page.close_code() == 4400
        # Pages of version 2 know what to show when their key has ended, and all of those have.
        keyless = await world.connect()
        assert await keyless.refused("hello", **{**HELLO, "versions": [2]}) == "unauthorized"
        assert await keyless.close_code() == 4401


async def test_of_keys_only_what_checks_them_is_kept_and_unused_ones_end(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        root = root_of(page.key)
        row = (await world.device.rows("SELECT name, page_check, device_key FROM shell_keys"))[0]
        made = verifier_of(root)
        assert tuple(row) == (made.name, made.page_check, made.device_key)
        assert not {page.key.encode(), root} & {bytes(part) for part in row[1:]}
        world.clock.jump(91 * 24 * 3600)
        stale = await world.connect()
        said = PageProof(page.key, world.shell_url).hello
        assert await stale.refused("hello", **said, **HELLO) == "unauthorized"


# ── names and origins ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("H01")
async def test_h01_another_host_name_is_refused_before_anything_is_looked_up(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world, httpx.AsyncClient() as client:
        for origin in (world.shell_url, world.host.content.origin):
            for host in ("evil.test", f"evil.test:{port_of(origin)}", f"localhost:{port_of(origin)}", ""):
                for path in ("/", "/shell", "/app/x/"):
                    answer = await client.get(origin + path, headers={"host": host})
                    assert answer.status_code in (400, 421), (host, path)
        with pytest.raises(InvalidStatus) as refused:
            await world.connect(host="evil.test")
        assert refused.value.response.status_code == 421


@pytest.mark.requirement("H03", "H05")
@pytest.mark.parametrize("origin", ["http://evil.test", "null", None, "http://127.0.0.1:1"])
async def test_h03_h05_a_socket_from_another_page_is_refused_at_the_upgrade(
    tmp_path: Path, origin: str | None
) -> None:
    async with shell_world(tmp_path) as world:
        with pytest.raises(InvalidStatus) as refused:
            await world.connect(origin=origin)
        assert refused.value.response.status_code == 403
        with pytest.raises(InvalidStatus):
            await world.connect(origin=world.host.content.origin)


@pytest.mark.requirement("H02", "H06")
async def test_h02_h06_other_methods_and_bodies_do_nothing(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world, httpx.AsyncClient() as client:
        for origin in (world.shell_url, world.host.content.origin):
            for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
                answer = await client.request(method, f"{origin}/", content=b"x")
                assert answer.status_code == 405
                assert "access-control-allow-methods" not in answer.headers
        shell = await client.get(f"{world.shell_url}/")
        assert "access-control-allow-origin" not in shell.headers
        assert "set-cookie" not in shell.headers


@pytest.mark.requirement("F19")
async def test_f19_the_shell_is_framed_by_nobody_and_loads_only_its_own(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world, httpx.AsyncClient() as client:
        answer = await client.get(f"{world.shell_url}/")
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        for part in (
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            f"frame-src {world.host.content.origin}/app/",
            "require-trusted-types-for 'script'",
        ):
            assert part in policy.split("; ")
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["x-content-type-options"] == "nosniff"
        script = await client.get(f"{world.shell_url}/assets/shell.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert (await client.get(f"{world.shell_url}/assets/../index.html?x")).status_code in (200, 404)
        assert (await client.get(f"{world.shell_url}/nothing")).status_code == 404


# ── content ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("F18")
async def test_the_page_of_a_launch_is_served_once_and_into_a_frame_only(tmp_path: Path) -> None:
    async with shell_world(tmp_path, apps=with_surface(tmp_path / "brought")) as world:
        _, surface = await a_surface(world)
        async with httpx.AsyncClient(follow_redirects=False) as client:
            # F18: a tab does not get it, and does not use it up.
            for dest in ("document", "empty", None):
                headers = {"sec-fetch-dest": dest} if dest else {}
                assert (await client.get(surface.url, headers=headers)).status_code == 403
            frame = {"sec-fetch-dest": "iframe"}
            answer = await client.get(surface.url, headers=frame)
            assert answer.status_code == 200
            html = answer.text
            assert f'data-lineloop-nonce="{surface.nonce}"' in html
            assert f'data-lineloop-shell="{world.shell_url}"' in html
            assert html.index("boot.js") < html.index("surface/main.js")
            assert "surface/main.css" in html
            assert re.search(r"<script(?![^>]*src=)", html) is None
            assert (await client.get(surface.url, headers=frame)).status_code == 410
            for name in ("boot.js", "surface/main.js", "surface/main.css", "surface/part.js"):
                answer = await client.get(surface.url + name)
                assert answer.status_code == 200
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["access-control-allow-origin"] == "*"
                assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
                assert answer.headers["referrer-policy"] == "no-referrer"
                assert "camera=()" in answer.headers["permissions-policy"]


async def test_the_policy_of_a_surface_names_its_own_path_and_nothing_else(tmp_path: Path) -> None:
    async with shell_world(tmp_path, apps=with_surface(tmp_path / "brought")) as world:
        _, surface = await a_surface(world)
        async with httpx.AsyncClient() as client:
            answer = await client.get(surface.url, headers={"sec-fetch-dest": "iframe"})
        policy: dict[str, str] = {}
        for part in answer.headers["content-security-policy"].split("; "):
            name, _, value = part.partition(" ")
            policy[name] = value
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == surface.url
        assert policy["connect-src"] == policy["form-action"] == policy["base-uri"] == "'none'"
        assert policy["frame-ancestors"] == world.shell_url
        assert policy["sandbox"] == "allow-scripts"
        assert policy["trusted-types"] == "'none'"
        assert policy["webrtc"] == "'block'"
        assert "nonce" not in answer.headers["content-security-policy"]
        assert answer.headers["connection-allowlist"] == f'("{surface.url}*")'


@pytest.mark.requirement("H11")
@pytest.mark.parametrize(
    "path",
    [
        "../{launch}/surface/main.js",
        "%2e%2e/%2e%2e/etc/passwd",
        "surface/%2e%2e/manifest.json",
        "surface/../manifest.json",
        "surface%2fmain.js",
        "surface%5cmain.js",
        "surface\\main.js",
        "surface//main.js",
        "/surface/main.js",
        "surface/main.js%00.png",
        "surface/main.js/",
        "surface/MAIN.js",
        "manifest.json",
        "src/app.ts",
        "surface",
        "index.html",
        "x" * 5_000,
    ],
)
async def test_h11_only_exact_names_of_the_surface_s_files_are_found(tmp_path: Path, path: str) -> None:
    async with shell_world(tmp_path, apps=with_surface(tmp_path / "brought")) as world:
        _, surface = await a_surface(world)
        origin = world.host.content.origin
        target = f"/app/{surface.launch}/{path.format(launch=surface.launch)}"
        request = f"GET {target} HTTP/1.1\r\nHost: {origin[7:]}\r\nConnection: close\r\n\r\n"
        answer = await raw(port_of(origin), request.encode())
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:80]


@pytest.mark.requirement("H12", "H16")
async def test_h12_h16_another_launch_is_not_found_and_nothing_redirects(tmp_path: Path) -> None:
    async with shell_world(tmp_path, apps=with_surface(tmp_path / "brought")) as world:
        page, surface = await a_surface(world)
        assert len(surface.launch) >= 22
        origin = world.host.content.origin
        async with httpx.AsyncClient(follow_redirects=False) as client:
            for path in ("/", "/app", "/app/", f"/app/{surface.launch}", f"/app/{'A' * 22}/", "/app/%2e/"):
                answer = await client.get(origin + path, headers={"sec-fetch-dest": "iframe"})
                assert answer.status_code == 404, path
            assert (await client.get(f"{surface.url}surface/main.js")).status_code == 200
            await page.tell("surface.close", launch=surface.launch, reason="unmounted")
            await page.gone(surface.launch)
            for name in ("", "boot.js", "surface/main.js"):
                answer = await client.get(surface.url + name, headers={"sec-fetch-dest": "iframe"})
                assert answer.status_code == 404


async def test_files_that_are_not_the_installed_ones_are_not_served(tmp_path: Path) -> None:
    brought = with_surface(tmp_path / "brought")
    async with shell_world(tmp_path, apps=brought) as world:
        page = await world.page()
        await page.ask("apps.launch", app_scope="pomodoro", conversation_id=CONVERSATION)
        shown = await page.shown()
        (brought / "pomodoro/surface/main.js").write_text("something else")
        code = await page.refused("surface.open", instance_id=shown["instance_id"])
        assert code == "app_activation_failed"


# ── bounds ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("H13")
async def test_h13_a_frame_that_is_too_large_ends_the_page_and_nothing_else(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page, other = await world.page(), await world.page(tab="two")
        await page.send("x" * (4 * 1024 * 1024))
        assert await page.close_code() == 1009
        large = await world.page(tab="three")
        text = "x" * (MAX_PAGE_FRAME_BYTES - 200)
        await large.send(json.dumps({"v": 1, "id": "big", "type": "apps.launch", "payload": {"x": text}}))
        await until(lambda: "error" in large.answers.get("big", {}))
        assert await other.ask("intent", kind="show_chat", conversation_id=CONVERSATION) == {}


@pytest.mark.requirement("H13")
async def test_h13_a_page_of_bad_frames_is_left(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        for _ in range(60):
            await page.send("nonsense")
        assert await page.close_code() == 4422


@pytest.mark.requirement("H13")
async def test_h13_a_head_that_is_too_large_or_never_whole_is_cut_off(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        for origin in (world.shell_url, world.host.content.origin):
            head = b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000
            assert (await raw(port_of(origin), head)).startswith(b"HTTP/1.1 431")


@pytest.mark.requirement("H13")
async def test_h13_too_many_connections_are_turned_away_and_the_rest_go_on(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        port = port_of(world.shell_url)
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        try:
            turned_away = 0
            for reader, _ in held[-20:]:
                turned_away += (await asyncio.wait_for(reader.read(12), 5)).startswith(b"HTTP/1.1 503")
            assert turned_away == 20
            assert await page.ask("intent", kind="show_chat", conversation_id=CONVERSATION) == {}
        finally:
            for _, writer in held:
                writer.close()


async def test_a_stopping_device_says_goodbye(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        await world.host.stop()
        assert await page.close_code() == 4503
        assert page.events[-1]["type"] == "bye"


async def test_models_are_unsupported_without_anybody_who_knows_them(tmp_path: Path) -> None:
    async with shell_world(tmp_path) as world:
        page = await world.page()
        assert page.welcome["model"] is None
        assert await page.refused("models.find") == "unsupported"
        assert await page.refused("models.choose", target="demo") == "unsupported"


async def test_risky_calls_are_asked_on_every_page_and_answered_once(tmp_path: Path) -> None:
    brought = with_surface(tmp_path / "brought")
    path = brought / "pomodoro/manifest.json"
    manifest = json.loads(path.read_bytes())
    for tool in manifest["tools"]:
        tool["risk"] = "high"
    path.write_text(json.dumps(manifest))
    async with shell_world(tmp_path, apps=brought) as world:
        page, other = await world.page(), await world.page(tab="two")
        await world.device.invoke("pomodoro.interrupt", {}, "call-1")
        sheet = (await page.until_part("consent", lambda c: c["sheets"]))["sheets"][0]
        assert (sheet["app_title"], sheet["risk"], sheet["agent"]) == (
            manifest["title"],
            "high",
            "operator/assistant",
        )
        await other.until_part("consent", lambda c: c["sheets"])
        await page.ask("consent.answer", call_ref=sheet["call_ref"], allowed=False)
        for one in (page, other):
            await one.until_part("consent", lambda c: not c["sheets"])
        assert (await world.device.ended("call-1"))["code"] == "cancelled_by_user"


@pytest.mark.requirement("H08")
async def test_h08_neither_codes_nor_keys_are_in_logs_or_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with shell_world(tmp_path) as world:
        code = await world.host.new_code()
        page = await world.connect()
        proof = PageProof(code, world.shell_url)
        welcome = await page.ask("prove", proof=proof.answer(await page.ask("hello", **proof.hello, **HELLO)))
        wrong = await world.connect()
        await wrong.refused("hello", key=proof.key, **{**HELLO, "versions": [1]})
        await wrong.close_code()
        answers = json.dumps([welcome, *page.answers.values(), *wrong.answers.values()])
    said = capsys.readouterr()
    for secret in (code, proof.key):
        assert secret not in said.out + said.err + answers
