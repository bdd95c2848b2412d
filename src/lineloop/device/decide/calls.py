"""Decides about tool calls: whether one is accepted (steps 3 to 8) and how it ends (design: runtime 3.4).

The order of the checks is the contract: a call that was accepted before is answered from its record
whatever the inventory is now; everything refused before acceptance is audited, answers its envelope with
`rejected`, and leaves the call_id free.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from lineloop.device.decide.activation import drop_pointless_activation
from lineloop.device.decide.envelopes import Address, compose_message, head_of
from lineloop.device.decide.facts import CancelHandler, ConsentClosed, Dispatch, SendSoon
from lineloop.device.decide.focus import drop_pointless_showing
from lineloop.device.decide.outcomes import end_not_begun
from lineloop.device.decide.plan import Failure, Plan, answer_key
from lineloop.device.decide.route import Route
from lineloop.device.decide.routing import begin, go_on
from lineloop.device.decide.schemas import Schemas
from lineloop.device.decide.state import Activation, App, Call, Session, View
from lineloop.kit import json
from lineloop.kit.records import record
from lineloop.protocol.envelopes import tool_error
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.tools import (
    ActivationRequirement,
    CallModel,
    Delivery,
    Idempotency,
    Risk,
    ToolDescriptor,
    ToolKey,
)

FORBIDDEN_PARAMS = frozenset({"instance_id", "operation_id", "app_session_id", "activation_id"})


@record
class Invoke:
    """An agent's request, its envelope already checked. `params_text` is the JSON text of `params`."""

    agent: str
    conversation_id: str
    call_id: str
    key: ToolKey
    params: dict[str, Any]
    params_text: str
    inventory_revision: str | None
    message_id: str
    envelope_id: str
    trace: str | None = None


@record
class Known:
    """An earlier call with the same id, and the text of the message that carries its latest answer."""

    call: Call
    answer: str | None


@record
class InvokeState:
    """What is loaded for one invoke. `app` is None when no such app is installed."""

    known: Known | None
    view: View
    app: App | None
    session: Session


@record
class HandlerOutcome:
    """What an app session reported: a result, or an error with code and controlled reason, or `open`."""

    kind: str
    result: Any = None
    code: ErrorCode = ErrorCode.HANDLER_FAILED
    reason: str | None = None
    message: str | None = None


@record
class Answered:
    """What a handler said to a call that is not stored yet, and which session at which version said it."""

    app_session_id: str
    app_version: str
    outcome: HandlerOutcome


def decide_invoke(
    plan: Plan,
    state: InvokeState,
    invoke: Invoke,
    route: Route | None,
    schemas: Schemas,
    answered: Answered | None = None,
) -> None:
    """Steps 3 to 11 of the path of a call; also step 12 when its handler has `answered` already."""
    if state.known is not None:
        _replay(plan, state.known, invoke)
        return
    refusal = refusal_of(state.view, state.app, invoke, schemas)
    if refusal is not None:
        refuse(plan, invoke, refusal)
        return
    assert state.app is not None
    assert route is not None
    tool = state.app.tool(invoke.key)
    assert tool is not None
    begin(plan, _accept(plan, invoke, tool, state.session), tool, state.session, route)
    if answered is not None:
        _end_answered(plan, state.app, tool, answered, schemas)


def _end_answered(plan: Plan, app: App, tool: ToolDescriptor, answered: Answered, schemas: Schemas) -> None:
    """Ends the call with what was answered, if it would be handed to that very session; else that is
    forgotten.
    """
    handed = next((effect for effect in plan.effects if isinstance(effect, Dispatch)), None)
    if handed is None or (handed.call.app_session_id, app.version) != (
        answered.app_session_id,
        answered.app_version,
    ):
        return
    plan.effects.remove(handed)
    decide_outcome(plan, handed.call, tool, answered.outcome, schemas)


def may_answer_ahead(tool: ToolDescriptor) -> bool:
    """Whether a handler may run before its call is stored: it changes nothing, and a crash in between has it
    run again, which its declaration allows. Nobody has to be asked and nothing has to be shown first.
    """
    return (
        tool.call_model is CallModel.QUERY
        and tool.delivery is Delivery.MINIAPP_SDK
        and tool.idempotency is Idempotency.CALL_ID
        and tool.risk is Risk.LOW
        and tool.activation_requirement is not ActivationRequirement.FOREGROUND_REQUIRED
    )


def _replay(plan: Plan, known: Known, invoke: Invoke) -> None:
    """Step 3. Nothing is executed, nothing is added; the existing answer goes out again under its old key."""
    if not _same_request(known.call, invoke):
        refuse(plan, invoke, Failure(ErrorCode.CALL_CONFLICT))
        return
    if known.call.emptied:
        refuse(plan, invoke, Failure(ErrorCode.CALL_EXPIRED))
        return
    plan.audit_call(known.call, "call_repeated")
    if known.answer is not None:
        key = answer_key(known.call.ref, known.call.sequence)
        plan.effects.append(SendSoon(invoke.conversation_id, key, known.answer, True))


def _same_request(call: Call, invoke: Invoke) -> bool:
    """Whether tool and params are equal, whatever the order of fields; the revision does not count."""
    if call.key != invoke.key:
        return False
    if call.emptied:
        return call.params == params_digest(invoke.params)
    same_text = call.params == invoke.params_text
    return same_text or json.canonical(json.loads(call.params)) == json.canonical(invoke.params)


def params_digest(params: Any) -> str:
    """What stays of a call's parameters, as JSON text: enough to know the same request again."""
    return f'"sha256:{hashlib.sha256(json.canonical(params)).hexdigest()}"'


def refusal_of(view: View, app: App | None, invoke: Invoke, schemas: Schemas) -> Failure | None:
    """Why a new call is refused: steps 4 to 7, in this order; None when it is accepted."""
    if invoke.inventory_revision != view.revision:
        return Failure(ErrorCode.INVENTORY_STALE, detail={"inventory_revision": view.revision})
    visible = _visible(view, app, invoke)
    if isinstance(visible, Failure):
        return visible
    errors = schemas.errors_of(visible.input_schema, invoke.params)
    if errors:
        named = FORBIDDEN_PARAMS & invoke.params.keys()
        code = ErrorCode.SCOPE_FORBIDDEN if named else ErrorCode.INVALID_ARGUMENTS
        return Failure(code, errors=errors)
    if FORBIDDEN_PARAMS & invoke.params.keys():
        return Failure(ErrorCode.SCOPE_FORBIDDEN)
    if invoke.params.get("conversation_id", invoke.conversation_id) != invoke.conversation_id:
        return Failure(ErrorCode.SCOPE_MISMATCH)
    return None


def _visible(view: View, app: App | None, invoke: Invoke) -> ToolDescriptor | Failure:
    if app is None:
        return Failure(ErrorCode.APP_NOT_INSTALLED)
    if not app.enabled:
        return Failure(ErrorCode.APP_DISABLED)
    if app.unavailable is not None:
        return Failure(ErrorCode.TOOL_NOT_VISIBLE, app.unavailable)
    tool = app.tool(invoke.key)
    if tool is None and app.has_method(invoke.key.method):
        return Failure(ErrorCode.APP_VERSION_MISMATCH)
    if tool is None or invoke.key not in view.tools:
        return Failure(ErrorCode.TOOL_NOT_VISIBLE)
    return tool


def refuse(plan: Plan, invoke: Invoke, failure: Failure) -> None:
    """Audit only; the answer belongs to the envelope, not to a call."""
    refuse_envelope(
        plan,
        Address(
            invoke.agent, invoke.conversation_id, invoke.key.app_scope, invoke.message_id, invoke.envelope_id
        ),
        failure,
        call_id=invoke.call_id,
        inventory_revision=invoke.inventory_revision,
    )


def refuse_envelope(
    plan: Plan,
    address: Address,
    failure: Failure,
    *,
    call_id: str | None,
    inventory_revision: str | None = None,
) -> None:
    """Answers an envelope that is not carried out, and writes one audit line."""
    envelope = tool_error(
        head_of(plan.moment, address, plan.ids.make("env")),
        failure.error(),
        call_id=call_id or "",
        sequence=0,
        rejected=True,
    )
    if call_id is None:
        del envelope["correlation"]["call_id"]
    key = f"rejected/{address.reply_to_id or envelope['id']}"
    plan.speak(address.conversation_id, compose_message(address, key, envelope))
    plan.audit(
        "envelope_refused",
        actor=address.agent,
        conversation_id=address.conversation_id,
        app_scope=address.app_scope,
        call_id=call_id,
        inventory_revision=inventory_revision,
        code=str(failure.code),
    )


def _accept(plan: Plan, invoke: Invoke, tool: ToolDescriptor, session: Session) -> Call:
    """Step 8."""
    call = Call(
        ref=plan.ids.make("call"),
        agent=invoke.agent,
        conversation_id=invoke.conversation_id,
        call_id=invoke.call_id,
        key=invoke.key,
        params=invoke.params_text,
        inventory_revision=invoke.inventory_revision or "",
        message_id=invoke.message_id,
        envelope_id=invoke.envelope_id,
        state="accepted",
        call_model=tool.call_model.value,
        app_session_id=session.app_session_id,
        activation_id=None,
        operation_id=None,
        sequence=0,
        progress=0,
        deadline_at=plan.now + tool.timeout_ms,
        timeout_ms=tool.timeout_ms,
        outcome=None,
        error_code=None,
        accepted_at=plan.now,
        dispatched_at=None,
        ended_at=None,
        trace=invoke.trace,
    )
    plan.accept(call)
    return call


def decide_consent(plan: Plan, call: Call, session: Session, route: Route | None, *, allowed: bool) -> None:
    """The person's answer to a risky call. A repeated or late answer changes nothing."""
    if call.state != "awaiting_consent":
        plan.audit_call(call, "consent_late")
        return
    if not allowed or route is None:
        plan.fail(call, Failure(ErrorCode.CANCELLED_BY_USER, "consent_refused"))
        return
    tool = route.app.tool(call.key)
    plan.facts.append(ConsentClosed(call.ref, "allowed"))
    plan.audit_call(call, "consent_allowed")
    if tool is None:
        plan.fail(call, Failure(ErrorCode.APP_VERSION_MISMATCH))
        return
    go_on(plan, call, tool, session, route)


def decide_outcome(
    plan: Plan, call: Call, tool: ToolDescriptor | None, outcome: HandlerOutcome, schemas: Schemas
) -> Call:
    """Step 12. The first end wins; what comes later is audited and goes nowhere."""
    if call.ended:
        plan.audit_call(call, "late_result", detail={"kind": outcome.kind})
        return call
    if call.state not in ("dispatched", "operating") or outcome.kind == "open":
        return call
    if outcome.kind == "completed":
        fits = tool is not None and schemas.fits(tool.output_schema, outcome.result)
        if fits and isinstance(outcome.result, dict):
            return plan.succeed(call, outcome.result)
        plan.audit_call(call, "output_invalid", detail={"payload": outcome.result})
        return plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "output_invalid"), handler_done=True)
    return plan.fail(call, Failure(outcome.code, outcome.reason, outcome.message), handler_done=True)


def decide_progress(plan: Plan, call: Call, value: Any) -> None:
    """A handler's progress becomes a numbered receipt; only a fraction of 0 to 1 is passed on."""
    if call.state not in ("dispatched", "operating"):
        plan.audit_call(call, "late_progress")
        return
    fraction: Any = value.get("fraction") if isinstance(value, dict) else value
    facts = None
    if isinstance(fraction, (int, float)) and not isinstance(fraction, bool) and 0 <= fraction <= 1:
        facts = {"fraction": fraction}
    plan.receipt(call, "progress", facts=facts)


def decide_cancel(plan: Plan, call: Call, session: Session, app: App | None, schemas: Schemas) -> Session:
    """The agent's cancel: a waiting call ends; a running one is asked to stop, and the result may still
    win.
    """
    if call.ended:
        plan.audit_call(call, "cancel_late")
        return session
    plan.audit_call(call, "cancel_asked")
    if call.state == "dispatched":
        plan.effects.append(CancelHandler(call))
        return session
    plan.fail(call, Failure(ErrorCode.CANCELLED))
    return _without(plan, call, session, app, schemas, "cancelled_by_agent")


def decide_expiry(plan: Plan, call: Call, session: Session, app: App | None, schemas: Schemas) -> Session:
    """The call's time is over. For an operation tool it counts to `started` only."""
    if call.ended or call.deadline_at is None:
        return session
    tool = app.tool(call.key) if app is not None else None
    match call.state:
        case "awaiting_consent":
            plan.fail(call, Failure(ErrorCode.PERMISSION_DENIED, "consent_not_given"))
        case "waiting_foreground":
            failure = Failure(ErrorCode.FOREGROUND_REQUIRED, "foreground_not_confirmed")
            end_not_begun(plan, call, tool, schemas, "foreground_not_confirmed", failure)
        case "waiting_activation" if session.starting and session.activation is not None:
            by_foreground = session.activation.waits_for == "foreground"
            reason = "foreground_not_confirmed" if by_foreground else "deadline"
            code = ErrorCode.FOREGROUND_REQUIRED if by_foreground else ErrorCode.OPERATION_EXPIRED
            end_not_begun(plan, call, tool, schemas, reason, Failure(code, reason))
        case _:
            plan.fail(call, Failure(ErrorCode.OPERATION_EXPIRED, "timeout"))
    return _without(plan, call, session, app, schemas, "foreground_not_confirmed")


def _without(
    plan: Plan, call: Call, session: Session, app: App | None, schemas: Schemas, reason: str
) -> Session:
    """The session after one of its calls has ended; a start that nobody waits for any more is cancelled."""
    left = tuple(other for other in session.queue if other.ref != call.ref)
    running = session.running_command and not (call.call_model == "command" and call.state == "dispatched")
    session = replace(session, queue=left, running_command=running)
    session = drop_pointless_activation(plan, session, app, schemas, reason)
    return drop_pointless_showing(plan, session) if call.state == "waiting_foreground" else session


def end_stranded_call(
    plan: Plan, call: Call, activation: Activation | None, tool: ToolDescriptor | None, schemas: Schemas
) -> Call:
    """Ends a call whose app has gone: as the handler's failure, or as not begun for the start's reason."""
    if call.state in ("dispatched", "operating"):
        return plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "closed"))
    state = activation.state if activation is not None else "ready"
    reason = (activation.reason if activation is not None else None) or "app_closed"
    if state not in ("failed", "cancelled"):
        failure = Failure(ErrorCode.CANCELLED_BY_USER, reason)
        return end_not_begun(plan, call, tool, schemas, reason, failure)
    call = plan.receipt(call, f"activation_{state}", reason=reason)
    failed = state == "failed"
    code = ErrorCode.APP_ACTIVATION_FAILED if failed else ErrorCode.APP_ACTIVATION_CANCELLED
    return end_not_begun(plan, call, tool, schemas, reason, Failure(code, reason))


def decide_after_restart(plan: Plan, call: Call, tool: ToolDescriptor | None) -> Call:
    """A call that was with its app when the process died: handed out again, or its outcome is unknown."""
    if tool is not None and tool.idempotency == "call_id":
        plan.audit_call(call, "call_dispatched_again")
        return call
    return plan.fail(call, Failure(ErrorCode.HANDLER_FAILED, "outcome_unknown"))
