"""A Runtime that is none: it speaks the shell's protocol and shows whatever state it is told to.

For looking at the shell in a browser without a device. The two listeners and their headers are the real ones;
conversations, apps and answers are made up here. Not shipped.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn

from lineloop.device.host.web import shell_app
from lineloop.device.host.web.content import ContentApp
from lineloop.device.host.web.handshake import (
    Talk,
    Verifier,
    device_proof,
    next_key,
    proven_key,
    root_of,
    verifier_of,
)
from lineloop.device.host.web.launches import Launch, Launches, ServedFile, SurfaceFiles
from lineloop.kit.clock import SystemClock
from lineloop.kit.ids import Ids
from lineloop.kit.tasks import Tasks
from lineloop.protocol.content import text_content

State = dict[str, Any]
SURFACES = Path(__file__).parent / "surfaces"
BOOT = Path(shell_app.__file__).parent / "boot.js"
WHEN = "2026-03-02T09:30:00.000Z"


def conversation(name: str, title: str, unread: int = 0) -> State:
    return {
        "id": name,
        "title": title,
        "name": None,
        "created_at": WHEN,
        "last_at": WHEN,
        "last_ordinal": 4,
        "unread": unread,
    }


def app(scope: str, title: str, **more: Any) -> State:
    return {
        "app_scope": scope,
        "title": title,
        "version": "1.0.0",
        "kind": "installed",
        "enabled": True,
        "unavailable": None,
        "icon": None,
        "has_surface": True,
        "tools": 2,
        **more,
    }


def instance(name: str, scope: str, title: str, conversation_id: str = "c1", **more: Any) -> State:
    return {
        "instance_id": name,
        "conversation_id": conversation_id,
        "app_scope": scope,
        "title": title,
        "state": "foreground",
        "activation_id": f"act_{name}",
        "generation": 1,
        "confirmed": False,
        "surface": True,
        **more,
    }


def message(name: str, ordinal: int, actor: tuple[str, str], text: str) -> State:
    return {
        "id": name,
        "conversation_id": "c1",
        "actor": {"kind": actor[0], "key": actor[1]},
        "target": None,
        "key": name,
        "reply_to_id": None,
        "purpose": "message",
        "status": "done",
        "revision": 1,
        "ordinal": ordinal,
        "offset": ordinal,
        "content": text_content(text),
        "created_at": WHEN,
        "updated_at": WHEN,
    }


class MockRuntime:
    """`heard` is every frame of the pages; change the parts and call `push`."""

    def __init__(self) -> None:
        self.code = "once"
        self._secrets = {verifier_of(root_of(self.code)).name: root_of(self.code)}
        self._asked: dict[Callable[[str], Awaitable[None]], tuple[Verifier, Talk]] = {}
        self.parts: dict[str, State] = {
            "workspace": {"lease": True, "foreground": None, "conversations": {}, "closing": []},
            "apps": {
                "apps": [
                    app("pomodoro", "Pomodoro"),
                    app("notes", "Notes"),
                    app("board", "Whiteboard", unavailable="its files have changed"),
                ],
                "instances": [],
            },
            "connection": {"state": "online", "waiting": 0, "since": WHEN},
            "consent": {"sheets": []},
        }
        self.model: State = {"target": "ollama:qwen3", "label": "qwen3 (Ollama)", "chosen": True}
        self.servers: list[State] = []
        self.conversations = [
            conversation("c1", "Plan the week"),
            conversation("c2", "Tax papers 2025", unread=3),
            conversation("c3", "读书笔记"),
        ]
        self.messages = [
            message("m1", 1, ("user", "local"), "I need some quiet. Start a 25 minute focus please."),
            message("m2", 2, ("operator", "assistant"), "Started: 25 minutes. Say “stop” and I end it."),
        ]
        self.heard: list[State] = []
        self._pages: list[Callable[[str], Awaitable[None]]] = []
        self._servers: list[uvicorn.Server] = []
        self._tasks = Tasks("mock-runtime", None)
        self._clock = SystemClock()
        self._launches = Launches(Ids(SystemClock()), BOOT.read_bytes())
        self.shell_origin = self.content_origin = ""
        self._by_launch: dict[str, str] = {}

    # ── listeners ───────────────────────────────────────────────────────────────────────────────────────────

    async def start(self, shell_port: int = 0) -> str:
        content_port, shell_port = _free_port(), shell_port or _free_port()
        self.shell_origin = f"http://127.0.0.1:{shell_port}"
        content = ContentApp(self._launches, port=content_port, shell_origin=self.shell_origin)
        self.content_origin = content.origin
        shell = shell_app.ShellApp(
            shell_app.load_static(), self._page, port=shell_port, content_origin=content.origin
        )
        for asgi, port in ((shell, shell_port), (content, content_port)):
            config = uvicorn.Config(asgi, port=port, log_level="warning", lifespan="off", ws_max_size=2**22)
            server = uvicorn.Server(config)
            server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
            self._servers.append(server)
            self._tasks.spawn(server.serve(), name=f"listener-{port}")
        for server in self._servers:
            while not server.started:
                await self._clock.sleep(0.01)
        return f"{self.shell_origin}/#code={self.code}"

    async def stop(self) -> None:
        for server in self._servers:
            server.should_exit = server.force_exit = True
        for server in self._servers:
            await server.shutdown()
        await self._tasks.close()
        self._servers, self._tasks, self._pages = [], Tasks("mock-runtime", None), []

    async def push(self, *names: str) -> None:
        for send in list(self._pages):
            for name in names or self.parts:
                await send(json.dumps({"v": 1, "type": name, "payload": self.parts[name]}))

    def show(self, *stack: State) -> None:
        """These instances, the last one in the foreground; none: the chat."""
        by_conversation: dict[str, State] = {}
        for one in stack:
            by_conversation.setdefault(one["conversation_id"], {"stack": []})["stack"].append(one)
        top = stack[-1] if stack else None
        self.parts["workspace"]["conversations"] = by_conversation
        self.parts["workspace"]["foreground"] = (
            {"conversation_id": top["conversation_id"], "instance_id": top["instance_id"]} if top else None
        )
        self.parts["apps"]["instances"] = list(stack)

    # ── pages ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _page(self, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

        async def say(text: str) -> None:
            await send({"type": "websocket.send", "text": text})

        try:
            while True:
                event = await receive()
                if event["type"] == "websocket.disconnect":
                    return
                frame = json.loads(event["text"])
                self.heard.append(frame)
                await self._answer(frame, say)
        finally:
            self._asked.pop(say, None)
            with contextlib.suppress(ValueError):
                self._pages.remove(say)

    def _challenge(self, payload: State, say: Callable[[str], Awaitable[None]]) -> State | None:
        """The device's proof for a page that names a secret we know."""
        root = self._secrets.get(payload["name"])
        if root is None:
            return None
        talk = Talk(self.shell_origin, payload["name"], payload["nonce"], "device-nonce")
        self._asked[say] = (verifier_of(root), talk)
        return {"nonce": talk.device_nonce, "proof": device_proof(verifier_of(root), talk)}

    def _is_let_in(self, payload: State, say: Callable[[str], Awaitable[None]]) -> bool:
        verifier, talk = self._asked[say]
        shown = proven_key(verifier, talk, payload["proof"])
        if shown is None:
            return False
        key = root_of(next_key(shown, talk))
        self._secrets[verifier_of(key).name] = key
        return True

    async def _answer(self, frame: State, say: Callable[[str], Awaitable[None]]) -> None:
        kind, payload = frame["type"], frame["payload"]
        if kind == "frame":
            await self._session(payload, say)
            return
        if "id" not in frame:
            return
        challenge = self._challenge(payload, say) if kind == "hello" else None
        refused = (
            challenge is None if kind == "hello" else kind == "prove" and not self._is_let_in(payload, say)
        )
        if refused:
            error = {"code": "unauthorized", "message": "no"}
            await say(json.dumps({"v": 1, "reply_to": frame["id"], "error": error}))
            return
        ok = challenge if challenge is not None else await self._ok(kind, payload)
        await say(json.dumps({"v": 1, "reply_to": frame["id"], "ok": ok}))
        if kind == "prove":
            self._pages.append(say)
            await self.push()
        elif kind in ("intent", "apps.launch", "consent.answer"):
            await self._obey(kind, payload)

    async def _ok(self, kind: str, payload: State) -> State:
        if kind == "prove":
            return {
                "host_session_id": "hs_1",
                "content_origin": self.content_origin,
                "device_key": "laptop",
                "person": {"kind": "user", "key": "local"},
                "heartbeat_ms": 15_000,
                "model": self.model,
            }
        if kind == "session.open":
            return {"session": f"ses_{payload['app_scope']}"}
        if kind == "models.find":
            return {"servers": self.servers}
        if kind == "models.choose":
            self.model = {"target": payload["target"], "label": payload["target"], "chosen": True}
            return {"model": self.model}
        if kind == "apps.launch":
            return {"instance_id": f"ins_{payload['app_scope']}"}
        if kind == "surface.open":
            return self._open(payload["instance_id"], payload.get("theme"))
        return {}

    def _open(self, instance_id: str, theme: str | None) -> State:
        scope = next(
            one["app_scope"]
            for stack in self.parts["workspace"]["conversations"].values()
            for one in stack["stack"]
            if one["instance_id"] == instance_id
        )
        files = {
            f"surface/{name}": ServedFile((SURFACES / name).read_bytes(), media)
            for name, media in (
                (f"{scope}.js", "text/javascript"),
                ("well-behaved.js", "text/javascript"),
                ("surface.css", "text/css"),
            )
        }
        ids = Ids(SystemClock())
        launch = Launch(
            id=ids.secret(16),
            nonce=ids.secret(16),
            host_session_id="hs_1",
            instance_id=instance_id,
            app_scope=scope,
            surface=SurfaceFiles(f"surface/{scope}.js", ("surface/surface.css",), files),
            language="en",
            theme=theme,
            shell_origin=self.shell_origin,
        )
        self._launches._launches[launch.id] = launch  # pyright: ignore[reportPrivateUsage]
        return {"launch": launch.id, "nonce": launch.nonce, "url": self.content_origin + launch.path}

    async def _obey(self, kind: str, payload: State) -> None:
        if kind == "consent.answer":
            sheets = self.parts["consent"]["sheets"]
            self.parts["consent"]["sheets"] = [
                one for one in sheets if one["call_ref"] != payload["call_ref"]
            ]
        elif kind == "apps.launch":
            scope = payload["app_scope"]
            self.show(instance(f"ins_{scope}", scope, scope.title(), payload["conversation_id"]))
        elif payload["kind"] in ("show_chat", "open_conversation"):
            self.parts["workspace"]["foreground"] = None
        elif payload["kind"] == "close_app":
            self.show()
        else:
            self.parts["workspace"]["foreground"] = {
                "conversation_id": payload["conversation_id"],
                "instance_id": payload["instance_id"],
            }
        await self.push()

    # ── the chat's session ──────────────────────────────────────────────────────────────────────────────────

    async def _session(self, payload: State, say: Callable[[str], Awaitable[None]]) -> None:
        inner = json.loads(payload["text"])
        session = payload.get("session")
        if session is None or "id" not in inner:
            return

        async def tell(frame: State) -> None:
            text = json.dumps({"v": 1, **frame})
            await say(json.dumps({"v": 1, "type": "frame", "payload": {"session": session, "text": text}}))

        state = {
            "connection": self.parts["connection"],
            "person": {"kind": "user", "key": "local"},
            "conversations": self.conversations,
            "recipients_known": True,
            "recipients": [
                {
                    "kind": "operator",
                    "key": "assistant",
                    "display_name": "Assistant",
                    "description": "",
                    "online": True,
                }
            ],
            "model": self.model,
        }
        kind, asked = inner["type"], inner["payload"]
        ok: State = {}
        if kind == "action.dispatch":
            ok = {"id": "c9", "key": asked["id"], "state": "pending"}
        elif kind == "messages.list":
            ok = {"messages": [], "more": False, "calls": []}
        await tell({"reply_to": inner["id"], "ok": ok})
        if kind == "hello":
            init = {"app_scope": "chat", "app_session_id": session, "conversation_id": "c1"}
            await tell({"type": "init", "payload": {**init, "features": [], "state": state}})
        elif kind == "state.subscribe":
            changed = {"subscription": asked["subscription"], "state": state}
            await tell({"type": "state.changed", "payload": changed})
        elif kind == "messages.subscribe":
            shown = self.messages if asked["conversation_id"] == "c1" else []
            snapshot = {"messages": shown, "more": False, "calls": [], "sayings": [], "processes": []}
            await tell(
                {"type": "messages.snapshot", "payload": {"subscription": asked["subscription"], **snapshot}}
            )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
