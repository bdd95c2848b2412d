"""Tools of a Run: from an inventory to names a model sees, from a call to an invoke, from envelopes to a
result.

Pure. Decides what a model is shown, which arguments are not worth sending, and what the envelopes that came
back mean. When something is sent or waited for is the runner's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from lineloop.harness.adapters.port import Json, ToolCall, ToolOutcome, ToolResult, ToolSpec
from lineloop.harness.port import DeviceInventory, Invoke, PersonQuestion
from lineloop.kit.records import record
from lineloop.protocol.actors import Actor
from lineloop.protocol.errors import LoopError
from lineloop.protocol.schemas import schema_of
from lineloop.protocol.tools import CallModel, Inventory

INVENTORY = "inventory"
HUMAN = "human"
ASK = "ask"
CONFIRM = "confirm"
RECEIPT_TYPES = frozenset({"lineup.tool.accepted", "lineup.tool.progress"})
RESULT_TYPE = "lineup.tool.result"
ERROR_TYPE = "lineup.tool.error"
MAX_INVENTORY_REFRESHES = 3

_HUMAN_TOOLS: tuple[ToolSpec, ...] = (
    ToolSpec(
        ASK,
        "Ask the person",
        "Ask the person a question and wait for the answer.",
        {
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1, "maxLength": 4000},
                "choices": {
                    "type": "array",
                    "maxItems": 50,
                    "items": {
                        "type": "object",
                        "properties": {
                            "value": {"type": "string", "minLength": 1},
                            "label": {"type": "string", "minLength": 1},
                        },
                        "required": ["value"],
                        "additionalProperties": False,
                    },
                },
                "allow_other": {"type": "boolean"},
            },
            "required": ["question"],
            "additionalProperties": False,
        },
    ),
    ToolSpec(
        CONFIRM,
        "Ask the person to confirm",
        "Ask the person to accept or decline something and wait for the answer.",
        {
            "type": "object",
            "properties": {"question": {"type": "string", "minLength": 1, "maxLength": 4000}},
            "required": ["question"],
            "additionalProperties": False,
        },
    ),
)


@record
class Toolset:
    """What a Run may call, fixed when it first looks. `device` is None without inventory tools."""

    specs: tuple[ToolSpec, ...]
    device: Actor | None = None
    revision: str = ""

    def named(self, name: str) -> ToolSpec | None:
        return next((spec for spec in self.specs if spec.name == name), None)

    def to_json(self) -> Json:
        return {
            "device": self.device.to_wire() if self.device else None,
            "revision": self.revision,
            "specs": [{one.name: getattr(spec, one.name) for one in fields(ToolSpec)} for spec in self.specs],
        }

    @classmethod
    def from_json(cls, value: Json) -> Toolset:
        device = value.get("device")
        return cls(
            tuple(ToolSpec(**spec) for spec in value["specs"]),
            Actor.from_wire(device) if device else None,
            value["revision"],
        )


def build_toolset(wanted: Sequence[Any], found: DeviceInventory | None) -> Toolset:
    """The tools of a Run: those of the inventory when wanted and there, and the person's when wanted."""
    specs: list[ToolSpec] = []
    if INVENTORY in wanted and found is not None:
        inventory = Inventory.from_payload(found.payload)
        titles = {str(app.get("app_scope")): str(app.get("title") or "") for app in inventory.apps}
        specs += [
            ToolSpec(
                name=tool.model_name,
                title=tool.title,
                description=tool.description,
                input_schema=tool.input_schema,
                app_scope=tool.app_scope,
                method=tool.method,
                contract_version=tool.contract_version,
                app_title=titles.get(tool.app_scope, ""),
                call_model=str(tool.call_model),
            )
            for tool in inventory.tools
        ]
    if HUMAN in wanted:
        specs += _HUMAN_TOOLS
    has_device = INVENTORY in wanted and found is not None
    return Toolset(
        tuple(specs),
        found.device if has_device and found else None,
        found.revision if has_device and found else "",
    )


def refuse_call(toolset: Toolset, call: ToolCall) -> ToolResult | None:
    """The error of a call that need not leave the engine: unknown name or arguments against the schema."""
    spec = toolset.named(call.name)
    if spec is None:
        return _error(call, "tool_not_visible", f"there is no tool {call.name}")
    if call.problem:
        return _error(call, "invalid_arguments", call.problem)
    problems = schema_problems(spec.input_schema, call.arguments)
    if problems:
        return ToolResult(
            call.key,
            ToolOutcome.ERROR,
            {"code": "invalid_arguments", "message": problems[0]["message"], "errors": problems},
        )
    return None


def schema_problems(schema: Json, value: Any) -> list[Json]:
    """Where `value` breaks `schema`: `[{"pointer", "message"}]`; a schema that cannot be used is one
    problem.
    """
    try:
        return [{**broken} for broken in schema_of(schema).errors(value)]
    except LoopError as error:
        return [{"pointer": "", "message": f"the schema cannot be used: {error.message}"}]


def build_invoke(
    toolset: Toolset,
    call: ToolCall,
    run_id: str,
    *,
    inventory: DeviceInventory | None = None,
    refresh: int = 0,
) -> Invoke:
    """The invoke of a call; `refresh` counts how often a stale inventory made it be sent anew."""
    spec = toolset.named(call.name)
    assert spec is not None
    assert toolset.device is not None
    call_id = f"{run_id}/{call.key}"
    return Invoke(
        call_id=call_id,
        message_key=call_id if not refresh else f"{call_id}/r{refresh}",
        device=inventory.device if inventory else toolset.device,
        payload={
            "app_scope": spec.app_scope,
            "method": spec.method,
            "contract_version": spec.contract_version,
            "params": call.arguments,
        },
        inventory_revision=inventory.revision if inventory else toolset.revision,
        until="started_or_result" if spec.call_model == CallModel.OPERATION else "result",
    )


def build_question(call: ToolCall, run_id: str) -> PersonQuestion:
    """The question of a call of `ask` or `confirm`, already valid."""
    choices = tuple(
        (str(choice["value"]), str(choice.get("label") or choice["value"]))
        for choice in call.arguments.get("choices", [])
    )
    return PersonQuestion(
        call_id=f"{run_id}/{call.key}",
        kind=call.name,
        text=str(call.arguments["question"]),
        choices=choices,
        allow_other=call.name == ASK and (bool(call.arguments.get("allow_other")) or not choices),
    )


def read_receipts(envelopes: Sequence[Json]) -> list[Json]:
    """The receipts among a call's envelopes, in their own order, each stage once; progress every time."""
    receipts: list[tuple[int, Json]] = []
    seen: set[str] = set()
    for envelope in envelopes:
        if envelope.get("type") not in RECEIPT_TYPES:
            continue
        payload: Json = envelope.get("payload") or {}
        stage = str(payload.get("stage", ""))
        if stage in seen and stage != "progress":
            continue
        seen.add(stage)
        receipts.append((_sequence(envelope), payload))
    return [payload for _, payload in sorted(receipts, key=lambda item: item[0])]


def read_result(call: ToolCall, until: str, envelopes: Sequence[Json]) -> ToolResult | None:
    """What a call came to, or None while it is open. A final answer counts before `started`."""
    receipts = tuple(read_receipts(envelopes))
    for envelope in envelopes:
        payload: Json = envelope.get("payload") or {}
        if envelope.get("type") == RESULT_TYPE:
            return ToolResult(call.key, ToolOutcome.RESULT, payload.get("result") or {}, receipts)
        if envelope.get("type") == ERROR_TYPE:
            return ToolResult(call.key, ToolOutcome.ERROR, dict(payload), receipts)
    if until == "started_or_result":
        for receipt in receipts:
            if receipt.get("stage") == "started":
                return ToolResult(call.key, ToolOutcome.STARTED, dict(receipt), receipts)
    return None


def stale_revision(result: ToolResult) -> bool:
    """Whether a call was refused only because the inventory has moved on; the call id is still free."""
    content: Mapping[str, Any] = result.content
    return (
        result.outcome is ToolOutcome.ERROR
        and content.get("code") == "inventory_stale"
        and content.get("rejected") is True
    )


def read_answer(call: ToolCall, question: Json) -> ToolResult | None:
    """What a question to the person came to, or None while it is pending. Every outcome is a result."""
    if question.get("state") == "pending":
        return None
    return ToolResult(
        call.key,
        ToolOutcome.RESULT,
        {name: question.get(name) for name in ("state", "value", "reason")},
    )


def tool_block(spec: ToolSpec | None, call: ToolCall, state: str, result: Json | None = None) -> Json:
    """The block that shows a call in the output."""
    block: Json = {
        "id": f"tool-{call.key}",
        "type": "tool",
        "name": call.name,
        "title": spec.title if spec else call.name,
        "state": state,
        "arguments": call.arguments,
    }
    return block if result is None else {**block, "result": result}


def _sequence(envelope: Json) -> int:
    correlation = envelope.get("correlation")
    sequence = correlation.get("sequence") if isinstance(correlation, dict) else None
    return sequence if isinstance(sequence, int) else 0


def _error(call: ToolCall, code: str, message: str) -> ToolResult:
    return ToolResult(call.key, ToolOutcome.ERROR, {"code": code, "message": message})
