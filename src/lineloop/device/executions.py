"""The built-in executions that a `delivery: runtime` tool may name, and what each asks of its declaration.

Decides whether a declaration fits its execution, so that an app is refused at installation instead of failing
in a call. What an execution does is decided in decide/operations; nothing here knows an app.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from lineloop.kit.records import record
from lineloop.protocol.errors import FieldError
from lineloop.protocol.tools import (
    ActivationRequirement,
    CallModel,
    Delivery,
    DurationFrom,
    Idempotency,
    ToolDescriptor,
)

MAX_DURATION_MS = 7 * 24 * 3600 * 1000

Complain = Callable[[str, str], None]
"""`(pointer below the tool, sentence)`."""


@record
class BuiltIn:
    """One execution: how its tools must be declared.

    `outcomes` are the words that the Runtime may answer with; a tool names at least `required_outcomes`,
    nothing outside `outcomes`, and its output schema must take each of them.
    """

    name: str
    call_model: CallModel
    requirements: frozenset[ActivationRequirement]
    takes_duration: bool
    outcomes: frozenset[str]
    required_outcomes: frozenset[str]
    companion: str | None = None


EXECUTIONS: Mapping[str, BuiltIn] = {
    built_in.name: built_in
    for built_in in (
        BuiltIn(
            name="deadline.start",
            call_model=CallModel.OPERATION,
            requirements=frozenset(
                {ActivationRequirement.APP_READY, ActivationRequirement.FOREGROUND_REQUIRED}
            ),
            takes_duration=True,
            outcomes=frozenset({"completed", "interrupted", "not_started"}),
            required_outcomes=frozenset({"completed", "interrupted"}),
        ),
        BuiltIn(
            name="deadline.interrupt",
            call_model=CallModel.COMMAND,
            requirements=frozenset({ActivationRequirement.ACTIVATION_NOT_REQUIRED}),
            takes_duration=False,
            outcomes=frozenset({"interrupted", "cancelled", "nothing_to_interrupt"}),
            required_outcomes=frozenset({"interrupted", "cancelled", "nothing_to_interrupt"}),
            companion="deadline.start",
        ),
    )
}


def check_executions(tools: Sequence[ToolDescriptor]) -> list[FieldError]:
    """Every broken place of the tools' executions, as pointers into the manifest; empty when all fit."""
    errors: list[FieldError] = []
    named = {tool.execution.name for tool in tools if tool.execution is not None}
    for index, tool in enumerate(tools):
        if tool.delivery is Delivery.RUNTIME:
            _check_tool(tool, named, _collector(errors, f"/tools/{index}"))
    return errors


def _collector(errors: list[FieldError], prefix: str) -> Complain:
    def complain(pointer: str, message: str) -> None:
        errors.append({"pointer": prefix + pointer, "message": message})

    return complain


def _check_tool(tool: ToolDescriptor, named: set[str], complain: Complain) -> None:
    execution = tool.execution
    assert execution is not None  # the descriptor itself sees to that
    built_in = EXECUTIONS.get(execution.name)
    if built_in is None:
        complain("/execution/name", f"this Runtime has no execution {execution.name!r}")
        return
    if tool.call_model is not built_in.call_model:
        complain("/call_model", f"{built_in.name} is a {built_in.call_model}")
    if tool.activation_requirement not in built_in.requirements:
        words = " or ".join(sorted(built_in.requirements))
        complain("/activation_requirement", f"{built_in.name} needs {words}")
    if tool.idempotency is not Idempotency.CALL_ID:
        complain("/idempotency", "the Runtime's own executions are idempotent by call_id")
    if built_in.companion is not None and built_in.companion not in named:
        complain("/execution/name", f"{built_in.name} needs a tool with {built_in.companion}")
    _check_duration(tool, built_in, execution.duration_from, complain)
    _check_outcomes(tool, built_in, execution.outcomes, complain)


def _check_duration(
    tool: ToolDescriptor, built_in: BuiltIn, duration_from: DurationFrom | None, complain: Complain
) -> None:
    if not built_in.takes_duration:
        if duration_from is not None:
            complain("/execution/duration_from", f"{built_in.name} takes no duration")
        return
    if duration_from is None:
        complain("/execution/duration_from", f"{built_in.name} needs a duration")
        return
    pointer = f"/input_schema/properties/{duration_from.param}"
    parameter = _property(tool.input_schema, duration_from.param)
    if parameter is None or duration_from.param not in (tool.input_schema.get("required") or ()):
        complain("/execution/duration_from/param", "this is no required parameter of the tool")
        return
    if parameter.get("type") not in ("integer", "number"):
        complain(pointer, "a duration is a number")
        return
    minimum, maximum = _number(parameter.get("minimum")), _number(parameter.get("maximum"))
    if minimum is None or maximum is None or minimum <= 0:
        complain(pointer, "a duration has a minimum above 0 and a maximum")
    elif duration_from.duration_ms({duration_from.param: maximum}) > MAX_DURATION_MS:
        complain(pointer, "a duration is at most 7 days")


def _check_outcomes(
    tool: ToolDescriptor, built_in: BuiltIn, outcomes: tuple[str, ...], complain: Complain
) -> None:
    declared = frozenset(outcomes)
    if missing := sorted(built_in.required_outcomes - declared):
        complain("/execution/outcomes", f"missing: {', '.join(missing)}")
    if unknown := sorted(declared - built_in.outcomes):
        complain("/execution/outcomes", f"not an outcome of {built_in.name}: {', '.join(unknown)}")
    outcome = _property(tool.output_schema, "outcome")
    words = outcome.get("enum") if outcome is not None else None
    if not isinstance(words, list) or not declared <= set(cast("list[Any]", words)):
        complain("/output_schema/properties/outcome", "an enum that holds every declared outcome")


def _property(schema: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    value = cast("dict[str, Any]", properties).get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
