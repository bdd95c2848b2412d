"""Which model answers: what the environment says, what the person chose, what runs on this machine.

Decides where a choice is kept (`model.json` of the data directory, private, the key with the address for
which it was given) and which of two choices counts: the person's, until the environment says something new.
How a model is spoken to is the harness's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.model_lists import ModelLists
from lineloop.cli.running import read_private, write_private
from lineloop.device.models import FoundServer, ModelInUse
from lineloop.harness.adapters.demo import DemoAdapter
from lineloop.harness.adapters.model import ModelAdapter
from lineloop.harness.model_server import LIBRARY, Endpoint
from lineloop.harness.model_targets import DEMO, FAMILIES, Family, label_of, parse_target
from lineloop.protocol.errors import ErrorCode, InvalidRequest, LoopError

if TYPE_CHECKING:
    from pathlib import Path

    from lineloop.harness.adapters.port import Adapter
    from lineloop.kit.clock import Clock
    from lineloop.settings import Settings

MODEL_FILE = "model.json"
FIND_SECONDS = 1.0
VERIFY_SECONDS = 5.0
MAX_KEY_CHARS = 4096
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

Changed = Callable[[], Awaitable[None]]


class LocalModels:
    """Implements ModelChoice for a system on this machine; also says where its models are reached."""

    def __init__(self, settings: Settings, clock: Clock, families: Sequence[Family] | None = None) -> None:
        self._path = settings.data_dir / MODEL_FILE
        self._environment = settings.model
        self._keys = settings.model_keys
        self._urls = settings.model_urls
        self._lists = ModelLists(clock)
        self._families = {family.id: family for family in families or FAMILIES.values()}
        self._kept = read_private(self._path)
        self._changed: list[Changed] = []
        self._writing = asyncio.Lock()

    @property
    def target(self) -> str:
        """What answers now, as a target of the harness."""
        chosen = self._chosen
        return chosen or self._environment or DEMO

    def current(self) -> ModelInUse:
        target = self.target
        label = DemoAdapter.label if target == DEMO else label_of(target)
        return ModelInUse(target, label, self._chosen is not None or self._environment is not None)

    def adapters(self) -> list[Adapter]:
        """Everything that a server of this machine can drive."""
        return [DemoAdapter(), ModelAdapter(self.endpoint_of)]

    def on_changed(self, changed: Changed) -> None:
        """Awaited after every choice."""
        self._changed.append(changed)

    def endpoint_of(self, family: Family) -> Endpoint:
        """Where the models of a family are reached, and with which key."""
        url = self._url_of(family)
        return Endpoint(url, self._key_of(family, url), is_local=family.is_local or _is_loopback(url))

    async def find(self) -> list[FoundServer]:
        """The servers of this machine that answer within a second, in the order of the families."""
        local = [family for family in self._families.values() if family.is_local]
        endpoints = [self.endpoint_of(family) for family in local]
        lists = await asyncio.gather(*(self._lists.look(place, FIND_SECONDS) for place in endpoints))
        return [
            FoundServer(family.id, family.label, place.base_url, tuple(names))
            for family, place, names in zip(local, endpoints, lists, strict=True)
            if names is not None
        ]

    async def choose(self, target: str, key: str | None = None) -> ModelInUse:
        """Uses `target` from now on and after a restart; Runs under way end with what they began with.

        Raises LoopError: invalid_request (the key), harness_target_unknown, unsupported, model_unauthorized,
        model_unreachable, model_overloaded, model_unknown, model_answer_invalid.
        """
        if target == DEMO:
            await self._keep(DEMO, {})
        else:
            family, name = parse_target(target)
            given = _checked_key(key)
            if find_spec(LIBRARY) is None:
                raise LoopError(
                    "models need the extra: pip install 'lineloop[models]'", code=ErrorCode.UNSUPPORTED
                )
            place = self.endpoint_of(family)
            if given is not None:
                place = Endpoint(place.base_url, given, place.is_local)
            if place.key is None and not place.is_local:
                raise LoopError(f"{family.label} needs a key", code=ErrorCode.MODEL_UNAUTHORIZED)
            await self._lists.verify(place, name, VERIFY_SECONDS)
            keys = {family.id: {"base_url": place.base_url, "key": given}} if given is not None else {}
            await self._keep(target, keys)
        for changed in self._changed:
            await changed()
        return self.current()

    @property
    def _chosen(self) -> str | None:
        """The person's choice, unless the environment has said something else since, or it is none."""
        target = self._kept.get("target")
        if self._kept.get("environment") != self._environment or not isinstance(target, str):
            return None
        return target if is_target(target) else None

    async def _keep(self, target: str, keys: dict[str, Any]) -> None:
        async with self._writing:
            known = self._kept.get("keys")
            kept = {
                "target": target,
                "environment": self._environment,
                "keys": {**(cast("dict[str, Any]", known) if isinstance(known, dict) else {}), **keys},
            }
            await asyncio.to_thread(write_private, self._path, kept)
            self._kept = kept

    def _url_of(self, family: Family) -> str:
        here = self._families.get(family.id, family)
        return self._urls.get(family.id, here.base_url).rstrip("/")

    def _key_of(self, family: Family, url: str) -> str | None:
        """A kept key goes only to the address for which it was given."""
        known = self._kept.get("keys")
        entry = cast("dict[str, Any]", known).get(family.id) if isinstance(known, dict) else None
        if isinstance(entry, dict):
            kept = cast("dict[str, Any]", entry)
            if kept.get("base_url") == url and isinstance(kept.get("key"), str):
                return kept["key"]
        return self._keys.get(family.id)


def is_target(target: str) -> bool:
    """Whether a text names the demo or a model of a known family."""
    try:
        return target == DEMO or bool(parse_target(target))
    except InvalidRequest:
        return False


def check_model(settings: Settings) -> None:
    """Raises CommandFailed (2) for a model or an address of the environment that cannot be."""
    if settings.model is not None and settings.model != DEMO:
        try:
            parse_target(settings.model)
        except InvalidRequest as error:
            raise CommandFailed(f"LINELOOP_MODEL: {error.message}", Exit.USAGE) from error
    for family, url in settings.model_urls.items():
        if not _is_address(url):
            words = f"the address of {family} is http://… or https://…, without a name or password in it"
            raise CommandFailed(words, Exit.USAGE)


def kept_target(settings: Settings, data_dir: Path) -> str:
    """What would answer at the next start, in words without any key."""
    from lineloop.kit.clock import SystemClock

    check_model(settings)
    in_use = LocalModels(settings, SystemClock()).current()
    unreadable = (data_dir / MODEL_FILE).exists() and not read_private(data_dir / MODEL_FILE)
    if unreadable:
        return f"{in_use.target}; {MODEL_FILE} cannot be read and does not count"
    return in_use.target if in_use.chosen else f"{in_use.target}, nobody has chosen one yet"


def _checked_key(key: str | None) -> str | None:
    """The key without blanks around it, None for an empty one. Raises InvalidRequest, never with the key."""
    stripped = (key or "").strip()
    if len(stripped) > MAX_KEY_CHARS or not all("!" <= sign <= "~" for sign in stripped):
        raise InvalidRequest("a key is one word of letters, digits and signs", pointer="/key")
    return stripped or None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        names_a_server = bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and names_a_server


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in _LOOPBACK
