"""Third entry: what the shell, a window or the system reports. Identity is the host session.

Builds `HostIntent` and `Confirmation`, and nobody else does. The Runtime decides what a report means.
"""

from __future__ import annotations

from functools import partial

from lineloop.device.commit import calls, intents, sessions, startup
from lineloop.device.commit.room import Room
from lineloop.device.decide.focus import Confirmation
from lineloop.device.decide.intents import HostIntent, IntentKind
from lineloop.device.decide.startup import StartEntry

SOURCE = "host_intent"


class HostIntentEntry:
    """Takes the reports of hosts; implements host.port.HostReports. Each returns after its commit."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._begun = False

    async def session_opened(self, host_session_id: str) -> None:
        """This host session shows the person's display from now on; an earlier one loses its say."""
        job = partial(intents.take_lease, room=self._room, host_session_id=host_session_id)
        await self._room.submit(SOURCE, job)

    async def foreground_confirmed(
        self, host_session_id: str, instance_id: str, activation_id: str, generation: int
    ) -> bool:
        """The person sees this showing of this instance now. False when it was not what was asked for."""
        confirmation = Confirmation(host_session_id, instance_id, activation_id, generation)
        job = partial(sessions.foreground_confirmed, room=self._room, confirmation=confirmation)
        return await self._room.submit(SOURCE, job, sessions.SITE_FOREGROUND)

    async def reported(
        self,
        host_session_id: str,
        kind: IntentKind,
        conversation_id: str,
        instance_id: str | None = None,
    ) -> None:
        """The person left, chose or closed something, or the display's condition changed."""
        intent = HostIntent(host_session_id, kind, conversation_id, instance_id)
        await self._room.submit(
            SOURCE, partial(intents.take_intent, room=self._room, intent=intent), "device.intent"
        )

    async def app_chosen(self, host_session_id: str, app_scope: str, conversation_id: str) -> str:
        """The person opens an app themselves: its live instance is shown, or a new one is started.

        Returns the instance. Raises LoopError: app_not_installed, app_disabled, app_activation_failed,
        forbidden (core apps have no instances), lease_lost (this display is not the one in use).
        """
        intent = HostIntent(host_session_id, IntentKind.SHOW_APP, conversation_id)
        job = partial(intents.open_app, room=self._room, intent=intent, app_scope=app_scope)
        return await self._room.submit(SOURCE, job, "device.intent")

    async def begun(
        self, host_session_id: str, app_scope: str | None, conversation_id: str | None
    ) -> StartEntry:
        """A page begins: `app_scope` is what a link asks for. What is shown first, and why nothing else is.

        Raises LoopError lease_lost.
        """
        first, self._begun = not self._begun, True
        intent = HostIntent(host_session_id, IntentKind.SHOW_APP, conversation_id or "")
        job = partial(startup.begin, room=self._room, intent=intent, target=app_scope, first=first)
        try:
            return await self._room.submit(SOURCE, job, "device.intent")
        except BaseException:
            self._begun = not first
            raise

    async def default_chosen(self, app_scope: str | None) -> None:
        """The person chooses the app that they see first; None: chat.

        Raises LoopError: app_not_installed, app_disabled, invalid_request.
        """
        job = partial(startup.set_default, room=self._room, app_scope=app_scope)
        await self._room.submit(SOURCE, job, "device.intent")

    async def surface_stopped(self, host_session_id: str, instance_id: str, reason: str) -> None:
        """A surface was taken away for what it did, or because it broke; its instance goes on."""
        job = partial(
            intents.note_stopped_surface,
            room=self._room,
            host_session_id=host_session_id,
            instance_id=instance_id,
            reason=reason,
        )
        await self._room.submit(SOURCE, job, "device.intent")

    async def consent_answered(self, call_ref: str, *, allowed: bool) -> None:
        """The person agreed to a risky call or refused it. A late answer changes nothing."""
        job = partial(calls.answer_consent, room=self._room, ref=call_ref, allowed=allowed)
        await self._room.submit(SOURCE, job, "device.consent")
