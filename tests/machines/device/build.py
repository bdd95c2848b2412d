"""Values for decider tests: a plan with counted ids, a tool, a call, a session. No database, no loop."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from lineloop.device.decide.calls import Invoke, InvokeState
from lineloop.device.decide.envelopes import Moment
from lineloop.device.decide.inventory import describe_app
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.route import Route
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Activation, App, Call, Instance, Limits, Session, View
from lineloop.protocol.actors import Actor
from lineloop.protocol.tools import ToolDescriptor, ToolKey

NOW = 1_767_323_045_678
KEY = ToolKey("notes", "notes.add", "1")


class CountedIds:
    """ins_1, ins_2, …: the same decisions make the same ids."""

    def __init__(self) -> None:
        self._next: Counter[str] = Counter()

    def make(self, prefix: str) -> str:
        self._next[prefix] += 1
        return f"{prefix}_{self._next[prefix]}"


def a_plan(source: str = "agent_tool") -> Plan:
    return Plan(Moment(NOW, Actor("runtime", "laptop")), CountedIds(), source, Limits())


def a_tool(**changes: Any) -> ToolDescriptor:
    fields: dict[str, Any] = {
        "app_scope": KEY.app_scope,
        "method": KEY.method,
        "contract_version": KEY.contract_version,
        "title": "Add",
        "input_schema": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
        "output_schema": {"type": "object", "required": ["done"]},
        "call_model": "query",
    }
    return ToolDescriptor.from_wire({**fields, **changes})


def an_app(*tools: ToolDescriptor, **changes: Any) -> App:
    tools = tools or (a_tool(),)
    described = describe_app("notes", "1.0.0", "Notes", tools)
    by_name = {(tool.method, tool.contract_version): tool for tool in tools}
    return replace(App("notes", "1.0.0", "Notes", True, None, False, True, by_name, described), **changes)


def a_call(**changes: Any) -> Call:
    call = Call(
        "call_0", "operator/a", "cnv", "c0", KEY, '{"text":"x"}', "inv", "msg_0", "env_0", "accepted",
        "query", "ses_0", "act_0", None, 1, 0, NOW + 1000, 1000, None, None, NOW, None, None,
    )  # fmt: skip
    return replace(call, **changes)


def an_instance(**changes: Any) -> Instance:
    one = Instance("ins_0", "ses_0", "notes", "1.0.0", "cnv", "background", 0, None, None, NOW, None)
    return replace(one, **changes)


def an_activation(**changes: Any) -> Activation:
    one = Activation(
        "act_0", "ins_0", "ses_0", "cnv", "notes", "ready", "container", None, NOW + 15_000, NOW, NOW
    )
    return replace(one, **changes)


def a_session(**changes: Any) -> Session:
    """A ready session in the background."""
    ready = Session("cnv", "notes", "ses_0", an_instance(), an_activation())
    return replace(ready, **changes)


def an_invoke(**changes: Any) -> Invoke:
    invoke = Invoke("operator/a", "cnv", "c1", KEY, {"text": "x"}, '{"text":"x"}', "inv", "msg_1", "env_1")
    return replace(invoke, **changes)


def a_state(**changes: Any) -> InvokeState:
    return replace(InvokeState(None, View("inv", frozenset({KEY})), an_app(), a_session()), **changes)


def a_route(app: App | None = None) -> Route:
    return Route(app or an_app(), Schemas())
