"""Decides what the person sees: the focus stack of a conversation and the states of instances (design: 3.9).

Each conversation has a stack; of their tops the one that was asked for last is in front.

An instance becomes the foreground only when the host confirms it: host session, instance, activation and
generation must all be the ones that were asked for. Leaves to activation.py what becomes ready by that.
"""

from __future__ import annotations

from dataclasses import replace

from lineloop.device.decide.facts import (
    CloseInstance,
    EndStranded,
    FocusSet,
    InstanceChanged,
    ShowInstance,
    SubSessionClosed,
)
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.state import App, Instance, Session
from lineloop.device.decide.transitions import move_instance
from lineloop.kit.records import record


@record
class Confirmation:
    """The host says: this showing of this instance is what the person sees now."""

    host_session_id: str
    instance_id: str
    activation_id: str
    generation: int


def change_instance(plan: Plan, instance: Instance, state: str, reason: str | None = None) -> Instance:
    """The instance in its next state. Raises IllegalTransition."""
    if instance.state != state:
        move_instance(instance.state, state)
    ended = plan.now if state in ("stopped", "failed") else None
    changed = replace(instance, state=state, reason=reason or instance.reason, ended_at=ended)
    plan.facts.append(InstanceChanged(changed))
    return changed


def show(plan: Plan, session: Session) -> Session:
    """Asks the host for the foreground, as a new showing; the stack says so from now on."""
    instance = session.instance
    if instance is None:
        return session
    shown = replace(instance, generation=instance.generation + 1)
    stack = (*(other for other in session.focus if other != shown.instance_id), shown.instance_id)
    plan.facts += [InstanceChanged(shown), FocusSet(session.conversation_id, stack)]
    activation_id = session.activation.activation_id if session.activation is not None else None
    plan.effects.append(ShowInstance(shown, activation_id))
    return replace(session, instance=shown, focus=stack, front=shown.instance_id)


def is_shown(session: Session) -> bool:
    """Whether the instance is what its conversation shows, confirmed or not. See also Session.in_front."""
    return (
        session.instance is not None
        and bool(session.focus)
        and session.focus[-1] == session.instance.instance_id
    )


def refuse_confirmation(session: Session, confirmation: Confirmation, lease: str | None) -> str | None:
    """Why a confirmation counts for nothing, as a controlled word; None when it counts."""
    instance, activation = session.instance, session.activation
    if confirmation.host_session_id != lease:
        return "host_session_without_lease"
    if instance is None or activation is None or instance.instance_id != confirmation.instance_id:
        return "instance_not_live"
    if activation.activation_id != confirmation.activation_id:
        return "other_activation"
    if instance.generation != confirmation.generation or not is_shown(session):
        return "other_generation"
    if instance.confirmed:
        return "already_confirmed"
    return None


def confirm(plan: Plan, session: Session, previous: tuple[Instance, ...]) -> Session:
    """The instance is the foreground now; whatever was before goes to the background with its state kept."""
    assert session.instance is not None
    for other in previous:
        if other.instance_id != session.instance.instance_id:
            change_instance(plan, other, "background")
    confirmed = replace(session.instance, confirmed_generation=session.instance.generation)
    return replace(session, instance=change_instance(plan, confirmed, "foreground"))


def drop_pointless_showing(plan: Plan, session: Session) -> Session:
    """A showing that only calls asked for and nobody has seen is taken back when no call waits for it any
    more: what was there before is in front again.
    """
    instance = session.instance
    if not session.ready or instance is None or instance.confirmed_generation is not None:
        return session
    if not is_shown(session) or any(call.state == "waiting_foreground" for call in session.queue):
        return session
    return put_aside(plan, session)


def put_aside(plan: Plan, session: Session) -> Session:
    """The person turned to something else; the instance lives on in the background."""
    if session.instance is None:
        return session
    stack = tuple(other for other in session.focus if other != session.instance.instance_id)
    instance = session.instance
    if instance.state == "foreground":
        instance = change_instance(plan, instance, "background")
    if stack != session.focus:
        plan.facts.append(FocusSet(session.conversation_id, stack))
    return replace(session, instance=instance, focus=stack, front=None)


def take_away(plan: Plan, session: Session, app: App | None, state: str, reason: str) -> Session:
    """Ends an instance (`stopping` or `failed`) and gives the foreground back to what was there before.

    A sub-session of an app that starts one per launch ends with its instance.
    """
    if session.instance is None:
        return session
    instance = change_instance(plan, session.instance, state, reason)
    stack = tuple(other for other in session.focus if other != instance.instance_id)
    if stack != session.focus:
        plan.facts.append(FocusSet(session.conversation_id, stack))
    plan.effects += [CloseInstance(instance, session.in_front), EndStranded()]
    app_session_id = session.app_session_id
    if app is not None and app.per_launch and app_session_id is not None:
        plan.facts.append(SubSessionClosed(app_session_id))
        app_session_id = None
    return replace(
        session, app_session_id=app_session_id, instance=None, activation=None, focus=stack, front=None
    )
