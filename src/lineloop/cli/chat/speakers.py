"""What speakers are called in the terminal. Pure.

Decides names so that nobody can pass for another: an operator goes by its display name only while that name
is its own; otherwise its full actor stands beside it (`You (operator/you)`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lineloop.cli.chat.harmless import clean
from lineloop.kit.records import record
from lineloop.protocol.actors import RUNTIME, USER, Actor

YOU, DEVICE = "you", "device"
MAX_NAME = 40
_OF_KINDS = {USER: YOU, RUNTIME: DEVICE}
# With these a name could look like a full actor, or like the end of a name.
_TELLING = frozenset("/()[]:›")


@record
class Profile:
    """An actor that is online, as it presents itself."""

    actor: Actor
    display_name: str
    description: str = ""


@dataclass
class Speakers:
    """`online` is None while nobody has said who is online."""

    online: dict[Actor, Profile] | None = None
    _known: dict[Actor, str] = field(default_factory=dict[Actor, str])

    def learn(self, online: Iterable[Profile]) -> None:
        """Who is online now. Names of those that left are kept."""
        self.online = {profile.actor: profile for profile in online}
        for profile in self.online.values():
            name = " ".join(clean(profile.display_name).split())
            self._known[profile.actor] = name[:MAX_NAME] or profile.actor.key

    def name(self, actor: Actor) -> str:
        """What a speaker is called here."""
        own = _OF_KINDS.get(actor.kind)
        base = own or self._known.setdefault(actor, actor.key)
        if own == YOU:
            return base
        same = (other for other, name in self._known.items() if name.casefold() == base.casefold())
        if own is None and (
            base.casefold() in (YOU, DEVICE) or _TELLING & set(base) or any(other != actor for other in same)
        ):
            return f"{base} ({clean(str(actor))})"
        return base

    def is_away(self, actor: Actor) -> bool:
        """Whether it is known that nobody of this name is online."""
        return self.online is not None and actor not in self.online

    def description(self, actor: Actor) -> str:
        profile = (self.online or {}).get(actor)
        return clean(profile.description) if profile else ""
