"""Looks at the shell in a real browser: pictures of every state, and what apps that misbehave come to.

    python web/packages/shell/dev/look.py FOLDER [NAME…]

Needs the built shell (`npm run -w @lineloop/shell build`). Prints one line per check.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import Any

from mock_runtime import MockRuntime, instance
from playwright.async_api import Browser, Page, async_playwright

from lineloop.kit.clock import SystemClock

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
SHEET = {
    "call_ref": "call_1",
    "conversation_id": "c1",
    "agent": "assistant",
    "app_scope": "notes",
    "app_title": "Notes",
    "publisher": None,
    "tool_title": "Delete a notebook",
    "risk": "high",
    "params": {"notebook": "Tax papers 2025", "also_shared": True, "reason": "tidy up \u202e gnihton"},
}


def say(*words: Any) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")


class Look:
    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.folder = folder
        self.mock = MockRuntime()
        self.page: Page = None  # type: ignore[assignment]
        self.errors: list[str] = []

    async def open(self, size: Any = WIDE, scheme: Any = "light", *, url: str = "", **more: Any) -> Page:
        context = await self.browser.new_context(
            viewport=size, color_scheme=scheme, has_touch=size is PHONE, **more
        )
        self.page = await context.new_page()
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        await self.page.goto(url or await self.mock.start())
        return self.page

    async def shot(self, name: str) -> None:
        await self.page.wait_for_timeout(450)
        await self.page.screenshot(path=self.folder / f"{name}.png")
        if self.errors:
            say(f"{name}: errors {self.errors}")
            self.errors.clear()

    async def close(self) -> None:
        await self.page.context.close()
        await self.mock.stop()

    def told(self, kind: str) -> list[Any]:
        return [frame["payload"] for frame in self.mock.heard if frame["type"] == kind]

    async def wait(self, kind: str, seconds: float = 8) -> list[Any]:
        for _ in range(int(seconds * 20)):
            if found := self.told(kind):
                return found
            await self.page.wait_for_timeout(50)
        return []


async def chat(look: Look) -> None:
    for name, size, scheme in (
        ("chat-light", WIDE, "light"),
        ("chat-dark", WIDE, "dark"),
        ("chat-phone", PHONE, "light"),
    ):
        await look.open(size, scheme)
        await look.page.wait_for_selector(".rail")
        await look.shot(name)
        await look.close()


async def app(look: Look) -> None:
    for name, size, scheme in (
        ("app-light", WIDE, "light"),
        ("app-dark", WIDE, "dark"),
        ("app-phone", PHONE, "dark"),
    ):
        look.mock.show(
            instance("i2", "notes", "Notes", "c2"), instance("i1", "pomodoro", "Pomodoro", generation=3)
        )
        await look.open(size, scheme)
        shown = await look.wait("surface.shown")
        say(name, "shown", shown)
        await look.shot(name)
        if size is PHONE:
            await look.page.click(".sheet-handle")
            await look.shot("app-phone-sheet")
        await look.close()
        look.mock.heard.clear()


async def states(look: Look) -> None:
    look.mock.model = {"target": "demo", "label": "Demo, not AI", "chosen": False}
    look.mock.servers = [
        {
            "id": "ollama",
            "label": "Ollama",
            "base_url": "http://127.0.0.1:11434",
            "models": ["qwen3:8b", "llama3.2"],
        },
        {"id": "lmstudio", "label": "LM Studio", "base_url": "http://127.0.0.1:1234", "models": []},
    ]
    for name, size, scheme in (
        ("first-light", WIDE, "light"),
        ("first-dark", WIDE, "dark"),
        ("first-phone", PHONE, "light"),
    ):
        await look.open(size, scheme)
        await look.page.wait_for_selector(".model-row")
        await look.shot(name)
        await look.close()
    look.mock.model["chosen"] = True
    look.mock.parts["consent"]["sheets"] = [SHEET, {**SHEET, "call_ref": "call_2"}]
    for name, size, scheme in (
        ("consent-light", WIDE, "light"),
        ("consent-dark", WIDE, "dark"),
        ("consent-phone", PHONE, "light"),
    ):
        await look.open(size, scheme)
        await look.page.wait_for_selector(".consent")
        await look.shot(name)
        await look.close()
    look.mock.parts["consent"]["sheets"] = []
    look.mock.parts["connection"] = {
        "state": "offline",
        "waiting": 3,
        "since": "2026-03-02T09:30:00Z",
    }
    await look.open(locale="zh-CN")
    await look.page.click(".rail-end button")
    await look.shot("settings-zh")
    await look.page.keyboard.press("Escape")
    await look.mock.stop()
    await look.page.wait_for_selector(".strip")
    await look.shot("gone-zh")
    await look.page.context.close()
    await look.mock.start()
    await look.open(url=look.mock.shell_origin)
    await look.page.wait_for_selector(".door")
    await look.shot("door")
    await look.close()


async def misbehaving(look: Look) -> None:
    for scope in ("runaway", "flood", "shout", "busy"):
        look.mock.show(instance("i1", scope, scope.title()))
        await look.open()
        look.mock.heard.clear()
        if scope == "busy":
            await look.page.wait_for_selector(".slow", timeout=9_000)
            await look.page.click(".slow button")
        started = asyncio.get_running_loop().time()
        closed = await look.wait("surface.close", 12)
        took = asyncio.get_running_loop().time() - started
        left = await look.page.locator("iframe").count()
        say(scope, closed, f"frames left {left}, after {took:.1f} s")
        await look.shot(f"ended-{scope}")
        await look.close()


async def together(look: Look) -> None:
    """One of two open frames runs away: it goes, the other stays."""
    two = (instance("i2", "pomodoro", "Pomodoro"), instance("i1", "runaway", "Runaway"))
    look.mock.show(two[0])
    await look.open()
    await look.wait("surface.shown")
    look.mock.show(*two)
    await look.mock.push()
    await look.page.wait_for_timeout(3_500)
    opened, closed = len(look.told("surface.open")), look.told("surface.close")
    say("together", opened, "opened", closed, "left", await look.page.locator("iframe").count())
    await look.close()


async def thief(look: Look) -> None:
    look.mock.show(instance("i1", "thief", "Thief"))
    await look.open()
    await look.wait("surface.shown")
    field = look.page.locator(".chat-room textarea").first
    await field.click()
    await look.page.keyboard.type("stop the timer please, now", delay=40)
    stolen: list[Any] = []
    for frame in look.page.frames[1:]:
        stolen = await frame.evaluate("globalThis.keys")
    say("thief got", stolen, "; typed", repr(await field.input_value()), look.told("surface.close"))
    await look.shot("thief")
    await look.close()


async def guest(look: Look) -> None:
    """A person who clicks into an app may use it: at once when idle, after one press just after typing."""
    look.mock.show(instance("i1", "pomodoro", "Pomodoro"))
    await look.open()
    await look.wait("surface.shown")
    frame = look.page.frame_locator("iframe")
    await frame.locator("input").click()
    await look.page.keyboard.type("abc")
    say("idle click:", await frame.locator("input").input_value())
    await look.page.locator(".chat-room textarea").first.click()
    await look.page.keyboard.type("hello")
    box = await look.page.locator("iframe").bounding_box()
    assert box
    spot = await frame.locator("input").bounding_box()
    assert spot
    await look.page.mouse.click(spot["x"] + 9, spot["y"] + 9)
    await look.page.wait_for_timeout(100)
    await look.page.mouse.click(spot["x"] + 9, spot["y"] + 9)
    await look.page.keyboard.type("def")
    say("after typing:", await frame.locator("input").input_value())
    await look.page.locator(".chat-room textarea").first.click()
    await look.page.wait_for_timeout(6_000)
    await look.page.mouse.click(spot["x"] + 9, spot["y"] + 9)
    await look.page.keyboard.type("ghi")
    say("after a rest:", await frame.locator("input").input_value())
    await look.close()


async def crash(look: Look) -> None:
    """The process of an app breaks down: only the app is gone, and the page goes on."""
    look.mock.show(instance("i1", "pomodoro", "Pomodoro"))
    await look.open()
    await look.wait("surface.shown")
    session = await look.page.context.new_cdp_session(look.page.frames[1])
    with contextlib.suppress(Exception):
        await asyncio.wait_for(session.send("Page.crash"), 2)
    # The driver takes the page for crashed, too; what the Runtime hears says whether it is.
    for _ in range(260):
        await SystemClock().sleep(0.1)
        if look.told("surface.close"):
            break
    look.mock.show()
    await look.mock.push()
    look.mock.show(instance("i2", "pomodoro", "Pomodoro"))
    await look.mock.push()
    await SystemClock().sleep(2)
    say("crash", look.told("surface.close"), "then shown", look.told("surface.shown")[1:])
    await look.mock.stop()


async def axe(look: Look) -> None:
    """What axe finds in the main states, in both themes."""
    source = (Path(__file__).parents[4] / "node_modules/axe-core/axe.min.js").read_text()
    look.mock.show(instance("i1", "pomodoro", "Pomodoro"))
    for scheme in ("light", "dark"):
        await look.open(WIDE, scheme)
        await look.wait("surface.shown")
        for state in ("app", "settings", "consent"):
            if state == "settings":
                await look.page.click(".rail-end button")
            elif state == "consent":
                look.mock.parts["consent"]["sheets"] = [SHEET]
                await look.mock.push("consent")
            await look.page.wait_for_timeout(700)
            await look.page.evaluate(source)
            found = await look.page.evaluate("axe.run({iframes: false})")
            say(scheme, state, [(one["id"], one["nodes"][0]["html"][:160]) for one in found["violations"]])
        look.mock.parts["consent"]["sheets"] = []
        look.mock.heard.clear()
        await look.close()


SCENES = {
    scene.__name__: scene for scene in (chat, app, states, misbehaving, together, thief, guest, crash, axe)
}


async def main(folder: Path, names: list[str]) -> None:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name in names or SCENES:
            await SCENES[name](Look(browser, folder))
        await browser.close()


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target, sys.argv[2:]))
