"""Decides in which words a call ends that never began, and fits facts into a tool's own output schema.

Where the tool declares an outcome for "it never began" (`not_started`), that outcome is the answer; else the
coded error is (design: runtime 3.4). Knows no app: names of outcomes and fields come from the manifest.
"""

from __future__ import annotations

from typing import Any

from lineloop.device.decide.plan import Failure, Plan
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Call
from lineloop.kit import json
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.tools import ToolDescriptor

NOT_STARTED = "not_started"


def has_outcome(tool: ToolDescriptor | None, outcome: str) -> bool:
    """Whether the tool's execution declares the outcome."""
    return tool is not None and tool.execution is not None and outcome in tool.execution.outcomes


def fit_result(
    tool: ToolDescriptor, params: dict[str, Any], facts: dict[str, Any], schemas: Schemas
) -> dict[str, Any] | None:
    """The richest form of the facts that the output schema takes, or None.

    Tried in this order: all facts; only declared fields, with parameters of the same name; outcome and
    reason; outcome alone.
    """
    declared = _declared_fields(tool.output_schema)
    everything = {**params, **facts}
    candidates = (
        {name: value for name, value in everything.items() if name in declared},
        facts,
        {name: facts[name] for name in ("outcome", "reason") if name in facts},
        {name: facts[name] for name in ("outcome",) if name in facts},
    )
    for candidate in candidates:
        if "outcome" in candidate and schemas.fits(tool.output_schema, candidate):
            return candidate
    return None


def _declared_fields(schema: Any) -> frozenset[str]:
    if not isinstance(schema, dict):
        return frozenset()
    found: set[str] = set(schema.get("properties") or ())
    for combiner in ("oneOf", "anyOf", "allOf"):
        for branch in schema.get(combiner) or ():
            found |= _declared_fields(branch)
    return frozenset(found)


def end_with_outcome(
    plan: Plan, call: Call, tool: ToolDescriptor, schemas: Schemas, outcome: str, reason: str
) -> Call:
    """Ends a call that never began with an outcome of its own schema, or with a coded error if it has
    none.
    """
    result = fit_result(tool, json.loads(call.params), {"outcome": outcome, "reason": reason}, schemas)
    if not has_outcome(tool, outcome) or result is None:
        return plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, reason))
    return plan.succeed(call, result)


def end_not_begun(
    plan: Plan, call: Call, tool: ToolDescriptor | None, schemas: Schemas, reason: str, failure: Failure
) -> Call:
    """Ends a waiting call: `not_started` with the reason where the tool knows it, else the failure."""
    if tool is not None and has_outcome(tool, NOT_STARTED):
        facts = {"outcome": NOT_STARTED, "reason": reason}
        result = fit_result(tool, json.loads(call.params), facts, schemas)
        if result is not None:
            return plan.succeed(call, result)
    return plan.fail(call, failure)
