"""Decides whom a decision concerns who shows apps to the person. What they then show they read anew."""

from __future__ import annotations

from collections.abc import Iterable

from lineloop.device.decide.facts import (
    ActivationEnded,
    ActivationStarted,
    Effect,
    Fact,
    FocusSet,
    InstanceChanged,
    InstanceStarted,
    OperationEnded,
    OperationStarted,
    ProjectInstance,
)


def projections(facts: Iterable[Fact]) -> list[Effect]:
    """One effect per instance about which something has changed; one for none when only the focus has."""
    changed: dict[str, None] = {}
    refocused = False
    for fact in facts:
        match fact:
            case InstanceStarted(instance) | InstanceChanged(instance):
                changed[instance.instance_id] = None
            case ActivationStarted(activation) | ActivationEnded(activation):
                changed[activation.instance_id] = None
            case OperationStarted(operation) | OperationEnded(operation):
                changed[operation.instance_id] = None
            case FocusSet():
                refocused = True
            case _:
                pass
    if not changed and refocused:
        return [ProjectInstance(None)]
    return [ProjectInstance(instance_id) for instance_id in changed]
