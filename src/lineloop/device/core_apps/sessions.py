"""Sessions of the core apps (chat, app-registry, settings): opened by the shell, answered by the Runtime.

Decides what every such session has: a hello first, then `init` with its state, then the requests of its app
beside those that all apps have. Core apps run in the shell itself; there is no instance and no container
behind them. What each app answers is its own module's business.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from lineloop.device.bridge.frames import encode
from lineloop.device.bridge.session_bridge import Request, SessionBridge
from lineloop.device.commit_inbox import AppInbox
from lineloop.device.commit_session_data import SessionData
from lineloop.device.containers.port import SessionContext
from lineloop.device.core_apps.actions import Receipts
from lineloop.device.core_apps.chat import ChatSession
from lineloop.device.core_apps.outgoing import Drained, Outgoing, Send
from lineloop.device.core_apps.port import CoreApp, CoreParts, ModelSource, SessionParts
from lineloop.device.core_apps.registry import RegistrySession
from lineloop.device.core_apps.settings import SettingsSession
from lineloop.kit.tasks import Tasks
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError

FEATURES = ("app.lifecycle.v1", "app.inbox.v1", "app.session-data.v1", "core.chat.v1")
GLOBAL_CONVERSATION = "runtime:global"

_APPS: dict[str, Callable[[SessionParts], CoreApp]] = {
    "chat": ChatSession,
    "app-registry": RegistrySession,
    "settings": SettingsSession,
}


class CoreSession:
    """One open session of a core app. `receive` takes its frames; after `close` nothing is sent."""

    def __init__(
        self,
        context: SessionContext,
        send: Send,
        app: CoreApp,
        outgoing: Outgoing,
        make_bridge: Callable[[SessionContext, Send, dict[str, Request]], SessionBridge],
    ) -> None:
        self._context = context
        self._send = send
        self.app = app
        self._outgoing = outgoing
        self._greeted = False
        requests: dict[str, Request] = {"hello": self._hello}
        for name, request in app.requests.items():
            requests[name] = self._after_hello(request)
        self._bridge = make_bridge(context, send, requests)
        self.closed = False

    def receive(self, text: str) -> None:
        """One frame of the page."""
        self._bridge.receive(text)

    def close(self) -> None:
        """Ends the session and its subscriptions. Idempotent."""
        if not self.closed:
            self.closed = True
            self.app.close()
            self._outgoing.close()
            self._bridge.close()

    async def _hello(self, _: dict[str, Any]) -> dict[str, Any]:
        if self._greeted:
            raise LoopError("this session has said hello", code=ErrorCode.BRIDGE_INVALID)
        self._greeted = True
        self._outgoing.mark(_Init(self._context, self.app))
        return {"features": list(FEATURES)}

    def _after_hello(self, request: Request) -> Request:
        async def checked(payload: dict[str, Any]) -> Any:
            if not self._greeted:
                raise LoopError("hello comes first", code=ErrorCode.BRIDGE_INVALID)
            return await request(payload)

        return checked


class CoreSessions:
    """Opens sessions of core apps. `model` tells which model answers by default; assigned by composition."""

    def __init__(self, parts: CoreParts, session_data: SessionData, inbox: AppInbox) -> None:
        self._parts = parts
        self._session_data = session_data
        self._inbox = inbox
        self._tasks = Tasks("core sessions")
        self._receipts = {scope: Receipts() for scope in _APPS}
        self._sessions: list[CoreSession] = []
        self.model: ModelSource | None = None

    def open(self, app_scope: str, send: Send, *, drained: Drained | None = None) -> CoreSession:
        """A session of a core app, whose frames go to `send` one by one.

        `drained` returns when the page has room for more; None = it always has. Raises LoopError
        app_not_installed for what is no core app.
        """
        make = _APPS.get(app_scope)
        if make is None:
            raise LoopError(f"{app_scope} is no core app", code=ErrorCode.APP_NOT_INSTALLED)
        installed = self._parts.registry.apps.get(app_scope)
        context = SessionContext(
            app_scope=app_scope,
            app_session_id=f"ses_core_{app_scope}",
            conversation_id=GLOBAL_CONVERSATION,
            app_version=installed.version if installed is not None else "0.0.0",
        )
        outgoing = Outgoing(send, self._tasks, drained)
        app = make(SessionParts(self._parts, outgoing, self._receipts[app_scope], self._model))
        session = CoreSession(context, send, app, outgoing, self._bridge)
        self._sessions = [*(one for one in self._sessions if not one.closed), session]
        return session

    def model_changed(self) -> None:
        """Tells every open session that the default model is another one."""
        for session in self._sessions:
            if not session.closed:
                session.app.model_changed()

    async def close(self) -> None:
        """Ends every session."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        await self._tasks.close()

    def _model(self) -> dict[str, Any] | None:
        return None if self.model is None else self.model()

    def _bridge(self, context: SessionContext, send: Send, more: dict[str, Request]) -> SessionBridge:
        return SessionBridge(
            context,
            send,
            session_data=self._session_data,
            inbox=self._inbox,
            tasks=self._tasks,
            core=True,
            more=more,
        )


class _Init:
    """The one frame after a hello."""

    def __init__(self, context: SessionContext, app: CoreApp) -> None:
        self._context = context
        self._app = app

    async def frames(self) -> AsyncGenerator[str, None]:
        payload = {
            "app_scope": self._context.app_scope,
            "app_session_id": self._context.app_session_id,
            "conversation_id": self._context.conversation_id,
            "app_version": self._context.app_version,
            "features": list(FEATURES),
            "state": await self._app.state(),
        }
        yield encode("init", payload)

    def failed(self) -> None:
        """The page asks for the state by itself."""
