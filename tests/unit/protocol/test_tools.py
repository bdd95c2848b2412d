"""Tool descriptors, inventories and JSON Schemas (spec/protocol.md §7.4, §7.5)."""

from __future__ import annotations

from typing import Any

import pytest

from lineloop.kit import json
from lineloop.protocol.errors import InvalidRequest
from lineloop.protocol.schemas import Schema, check_schema, schema_of
from lineloop.protocol.tools import (
    DurationFrom,
    DurationUnit,
    Inventory,
    ToolDescriptor,
    ToolKey,
    check_model_names,
    inventory_revision,
    model_name,
)

WIRE: dict[str, Any] = {
    "app_scope": "todo",
    "method": "todo.add",
    "contract_version": "1",
    "title": "Add",
    "input_schema": {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "additionalProperties": False,
    },
    "output_schema": {"type": "object"},
    "call_model": "command",
}


def tool(**changes: Any) -> ToolDescriptor:
    return ToolDescriptor.from_wire({**WIRE, **changes})


def test_optional_fields_may_be_absent_and_unknown_ones_are_passed_over() -> None:
    read = tool(colour="blue")
    assert (read.delivery, read.activation_requirement, read.risk) == ("miniapp_sdk", "app_ready", "low")
    assert read.auto_launch
    assert ToolDescriptor.from_wire(read.to_wire()) == read


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"app_scope": "Todo"}, "/app_scope"),
        ({"method": "todo add"}, "/method"),
        ({"call_model": "magic"}, "/call_model"),
        ({"timeout_ms": 0}, "/timeout_ms"),
        ({"title": ""}, "/title"),
        ({"delivery": "runtime"}, ""),
        ({"execution": {"name": "deadline.start"}}, ""),
        ({"delivery": "runtime", "execution": {"name": "x", "shell": "rm"}}, "/execution/shell"),
    ],
)
def test_a_descriptor_that_breaks_a_rule_is_refused(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        tool(**change)
    assert pointer in [place["pointer"] for place in refusal.value.errors]


def test_models_see_one_flat_name() -> None:
    assert model_name(ToolKey("app-registry", "app.list_all", "2")) == "app-registry__app_list_all"


def test_two_tools_that_models_could_not_tell_apart_are_refused() -> None:
    check_model_names([tool(), tool(method="todo.remove")])
    with pytest.raises(InvalidRequest):
        check_model_names([tool(method="a.b"), tool(method="a_b")])


@pytest.mark.requirement("P10")
def test_equal_inventories_have_equal_revisions_in_any_order() -> None:
    one, other = tool(), tool(method="todo.remove")
    apps = [{"app_scope": "b", "title": "B"}, {"title": "A", "app_scope": "a"}]
    first = Inventory.of([one, other], apps=apps)
    second = Inventory.of([other, one], apps=[dict(reversed(app.items())) for app in reversed(apps)])
    assert first == second
    assert first.revision == second.revision
    assert first.revision.startswith("inv_")
    assert len(first.revision) == len("inv_") + 16


@pytest.mark.requirement("P10")
def test_any_change_of_content_changes_the_revision() -> None:
    base = Inventory.of([tool()])
    others = [
        Inventory.of([tool(title="Add!")]),
        Inventory.of([]),
        Inventory.of([tool()], apps=[{"app_scope": "todo"}]),
        Inventory.of([tool()], capabilities=["clipboard.read"]),
        Inventory.of([tool(contract_version="2")]),
    ]
    assert len({base.revision, *(other.revision for other in others)}) == len(others) + 1


@pytest.mark.requirement("P10")
def test_an_inventory_survives_the_wire_and_its_revision_can_be_checked() -> None:
    inventory = Inventory.of([tool()], apps=[{"app_scope": "todo", "title": "Todo"}])
    payload = json.loads(json.dumps(inventory.to_payload()))
    assert Inventory.from_payload(payload) == inventory
    assert inventory_revision(payload) == inventory.revision
    assert inventory.tool(tool().key) == tool()
    assert inventory.by_model_name("todo__todo_add") == tool()
    assert inventory.by_model_name("todo__todo_fly") is None


@pytest.mark.parametrize(
    "payload", [{}, {"revision": "r"}, {"revision": 1, "tools": []}, {"revision": "r", "tools": [{}]}]
)
def test_what_is_no_inventory_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        Inventory.from_payload(payload)


@pytest.mark.parametrize(
    ("unit", "value", "ms"),
    [("ms", 5, 5), ("seconds", 1.5, 1500), ("minutes", 20, 1_200_000), ("hours", 1, 3_600_000)],
)
def test_a_duration_is_read_from_its_parameter(unit: str, value: float, ms: int) -> None:
    assert DurationFrom(param="d", unit=DurationUnit(unit)).duration_ms({"d": value}) == ms


@pytest.mark.parametrize("params", [{}, {"d": "20"}, {"d": True}, {"d": None}])
def test_a_duration_that_is_no_number_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        DurationFrom(param="d", unit=DurationUnit.MINUTES).duration_ms(params)


def test_a_schema_names_every_broken_place() -> None:
    schema = schema_of(
        {
            "type": "object",
            "properties": {"a/b": {"type": "integer"}, "l": {"type": "array", "items": {"type": "string"}}},
            "required": ["a/b"],
        }
    )
    assert schema.is_valid({"a/b": 1})
    places = schema.errors({"a/b": "x", "l": ["ok", 2]})
    assert {place["pointer"] for place in places} == {"/a~1b", "/l/1"}
    assert [place["pointer"] for place in schema.errors({})] == [""]
    assert schema_of(dict(schema.source)) is schema


@pytest.mark.parametrize(
    "source",
    [
        [],
        {"type": "wish"},
        {"$ref": "https://example.com/x.json"},
        {"properties": {"a": {"$ref": "other.json#/a"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"pattern": "(?=look)ahead"},
    ],
)
def test_a_schema_that_reaches_outside_or_is_none_is_refused(source: Any) -> None:
    with pytest.raises(InvalidRequest):
        check_schema(source)


def test_a_schema_may_refer_to_itself() -> None:
    tree = Schema(
        {
            "$defs": {"t": {"type": "object", "properties": {"kid": {"$ref": "#/$defs/t"}}}},
            "$ref": "#/$defs/t",
        }
    )
    assert tree.is_valid({"kid": {"kid": {}}})
    assert not tree.is_valid({"kid": {"kid": 1}})
