"""What the two listeners give to whom. Names with an id are cases of the attack list."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

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

from lineloop.device.host.web.frames import MAX_PAGE_FRAME_BYTES
from lineloop.kit import json
from lineloop.testing.device_world import CONVERSATION
from lineloop.testing.waiting import until


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
