"""Commits what app sessions and hosts report: ready, failed, crashed, confirmed, gone."""

from __future__ import annotations

from lineloop.device.commit.calls import move_on
from lineloop.device.commit.loading import load_route, load_session, load_shelf, load_whole_session
from lineloop.device.commit.room import Room
from lineloop.device.containers.port import SessionContext
from lineloop.device.decide.activation import fail_activation, make_ready
from lineloop.device.decide.focus import (
    Confirmation,
    change_instance,
    confirm,
    refuse_confirmation,
    show,
)
from lineloop.device.decide.plan import Plan
from lineloop.device.decide.state import Session
from lineloop.device.decide.withdrawal import decide_crash
from lineloop.device.store import records, sessions
from lineloop.kit.database import Tx

SITE_FOREGROUND = "device.foreground"


def session_ready(tx: Tx, plan: Plan, room: Room, activation_id: str) -> None:
    """The container of an activation has registered its handlers."""
    session = _starting(tx, room, activation_id)
    if session is None or session.activation is None or session.activation.waits_for != "container":
        return
    move_on(tx, plan, room, make_ready(plan, session))


def _starting(tx: Tx, room: Room, activation_id: str) -> Session | None:
    activation = sessions.activation_by_id(tx, activation_id)
    if activation is None or activation.state != "starting":
        return None
    session = load_session(tx, room, activation.conversation_id, activation.app_scope)
    if session.activation is None or session.activation.activation_id != activation_id:
        return None
    return session


def activation_failed(tx: Tx, plan: Plan, room: Room, activation_id: str, reason: str) -> None:
    """The container could not be made ready, or the activation's time is over."""
    session = _starting(tx, room, activation_id)
    if session is None or session.activation is None:
        return
    if reason == "deadline" and session.activation.waits_for == "foreground":
        reason = "foreground_not_confirmed"
    app = load_shelf(tx, room).apps.get(session.app_scope)
    fail_activation(plan, session, app, room.schemas, reason)


def foreground_confirmed(tx: Tx, plan: Plan, room: Room, confirmation: Confirmation) -> bool:
    """The host has shown what it was asked to show. What waited for exactly this begins in this commit.

    False when the confirmation counts for nothing; why is in the audit.
    """
    instance = sessions.instance_by_id(tx, confirmation.instance_id)
    session = (
        load_session(tx, room, instance.conversation_id, instance.app_scope)
        if instance is not None
        else Session("", "")
    )
    lease = records.device_state(tx, room.runtime_id).host_session_id
    refusal = refuse_confirmation(session, confirmation, lease)
    plan.audit(
        "foreground_confirmed" if refusal is None else "confirmation_ignored",
        actor=confirmation.host_session_id,
        conversation_id=session.conversation_id or None,
        app_scope=session.app_scope or None,
        detail={"generation": confirmation.generation, "reason": refusal},
    )
    if refusal is not None:
        return False
    session = confirm(plan, session, sessions.foreground_instances(tx, room.runtime_id))
    assert session.activation is not None
    if session.starting and session.activation.waits_for == "foreground":
        session = make_ready(plan, session)
    move_on(tx, plan, room, session)
    return True


def instance_stopped(tx: Tx, plan: Plan, instance_id: str) -> None:
    """Host and container have let go of an instance."""
    instance = sessions.instance_by_id(tx, instance_id)
    if instance is not None and instance.state == "stopping":
        change_instance(plan, instance, "stopped")


def session_crashed(tx: Tx, plan: Plan, room: Room, gone: SessionContext, reason: str) -> None:
    """A container has ended without being asked to. A later start of the same sub-session is not meant."""
    session = load_whole_session(tx, room, gone.conversation_id, gone.app_scope)
    if session.instance is None or session.app_session_id != gone.app_session_id or session.starting:
        return
    if gone.instance_id is not None and session.instance.instance_id != gone.instance_id:
        return
    app = load_shelf(tx, room).apps.get(gone.app_scope)
    if app is not None:
        decide_crash(plan, session, load_route(tx, room, app, session), reason)


def restore(tx: Tx, plan: Plan, room: Room) -> None:
    """What has come to the front because something else went is to be shown, as a new showing."""
    instance = sessions.instance_by_id(tx, sessions.front_of_focus(tx, room.runtime_id) or "")
    if instance is None:
        return
    session = load_session(tx, room, instance.conversation_id, instance.app_scope)
    if session.in_front:
        show(plan, session)
