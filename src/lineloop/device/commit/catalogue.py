"""What the registry offers, in the shape deciders need, for each state of registry and policy.

Decides nothing: a shelf is computed once per generation (the id that every change of registry or policy makes
anew and stores), so a job that reads the generation in its own transaction gets the shelf that belongs to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from lineloop.device.containers.port import InstalledApp
from lineloop.device.decide.inventory import PolicyRule, Published, compute_inventory, describe_app
from lineloop.device.decide.state import App, View
from lineloop.protocol.manifest import SessionScope
from lineloop.protocol.tools import Delivery

KEPT_GENERATIONS = 8


@lru_cache(maxsize=4_096)
def app_of(installed: InstalledApp) -> App:
    """The registry's record as deciders see it."""
    return App(
        app_scope=installed.app_scope,
        version=installed.version,
        title=installed.manifest.title,
        enabled=installed.enabled,
        unavailable=installed.unavailable,
        per_launch=installed.manifest.session is SessionScope.PER_LAUNCH,
        has_handlers=any(tool.delivery is Delivery.MINIAPP_SDK for tool in installed.tools),
        tools={(tool.method, tool.contract_version): tool for tool in installed.tools},
        description=describe_app(
            installed.app_scope, installed.version, installed.manifest.title, installed.tools
        ),
    )


class Shelf:
    """Apps, rules and inventories of one generation."""

    def __init__(
        self,
        installed: Mapping[str, InstalledApp],
        rules: tuple[PolicyRule, ...],
        features: frozenset[str],
    ) -> None:
        self.installed = dict(installed)
        self.apps = {scope: app_of(app) for scope, app in installed.items()}
        self.rules = rules
        self._features = features
        self._inventories: dict[tuple[PolicyRule, ...], Published] = {}

    def inventory(self, agent: str, conversation_id: str) -> Published:
        """What an agent sees in a conversation."""
        rules = tuple(rule for rule in self.rules if rule.concerns(agent, conversation_id))
        known = self._inventories.get(rules)
        if known is None:
            known = self._inventories[rules] = compute_inventory(self.apps, rules, self._features)
        return known

    def view(self, agent: str, conversation_id: str) -> View:
        return self.inventory(agent, conversation_id).view


class Catalogue:
    """Shelves by generation; the newest few are kept for jobs that are on their way."""

    def __init__(self, features: frozenset[str]) -> None:
        self.features = features
        self._shelves: dict[str, Shelf] = {}

    def put(
        self, generation: str, installed: Mapping[str, InstalledApp], rules: tuple[PolicyRule, ...]
    ) -> Shelf:
        shelf = Shelf(installed, rules, self.features)
        self._shelves[generation] = shelf
        while len(self._shelves) > KEPT_GENERATIONS:
            self._shelves.pop(next(iter(self._shelves)))
        return shelf

    @property
    def newest(self) -> Shelf | None:
        """The shelf put last; for effects, which act after the commit. Not for decisions."""
        return next(reversed(self._shelves.values()), None)

    def at(self, generation: str) -> Shelf:
        """Raises KeyError for a generation that this process has not seen."""
        return self._shelves[generation]
