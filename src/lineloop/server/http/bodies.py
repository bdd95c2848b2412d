"""From a judged request body to a command, the same for HTTP and the link.

Decides who the actor is (the grant), what the content is, and that only content one may write gets through.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from starlette.requests import Request

from lineloop.kit import json
from lineloop.kit.ids import Ids
from lineloop.protocol.attachments import attachments_of
from lineloop.protocol.content import derive_purpose, text_content, validate_content
from lineloop.protocol.errors import ConnectionLost, ErrorCode, InvalidRequest, LimitExceeded, LoopError
from lineloop.protocol.messages import MessageStatus
from lineloop.protocol.patches import empty_content
from lineloop.protocol.questions import QuestionTerms
from lineloop.protocol.requests import (
    MAX_META_BYTES,
    CommitBody,
    EndBody,
    PatchesBody,
    QuestionBody,
    SpeakBody,
)
from lineloop.server.commit.asking import OpenQuestion
from lineloop.server.commit.consuming import CommitCommand
from lineloop.server.commit.speaking import SpeakCommand
from lineloop.server.commit.streaming import AppendCommand, EndCommand
from lineloop.server.decide.access import Grant, Verb
from lineloop.server.decide.messages import decide_status


async def raw_body(request: Request, *, needed: bool = True) -> bytes:
    """The body, whose size was limited while it came; an empty object for none where none is `needed`.

    Raises malformed_json for none where one is, ConnectionLost.
    """
    parts: list[bytes] = []
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionLost("the client went away before its request was complete")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    if not body and needed:
        raise LoopError("a body is needed here, and it was empty", code=ErrorCode.MALFORMED_JSON)
    return body or b"{}"


def speak_command(grant: Grant, conversation_id: str, body: SpeakBody, ids: Ids) -> SpeakCommand:
    """Raises Forbidden, InvalidRequest, block_protected, LimitExceeded (`meta_bytes`)."""
    grant.require(Verb.SPEAK)
    actor = grant.actor(body.actor)
    content, text = spoken_content(body)
    return SpeakCommand(
        message_id=ids.make("msg"),
        conversation_id=conversation_id,
        actor=actor,
        key=body.key,
        content=content,
        content_json=text,
        target=body.target,
        reply_to_id=body.reply_to_id,
        status=decide_status(actor, stream=body.stream, status=body.status),
        purpose=derive_purpose(actor, content, body.purpose),
        speaker=grant,
        attachments=attachments_of(content) if body.content is not None else (),
    )


def spoken_content(body: SpeakBody) -> tuple[dict[str, Any], str]:
    """The content of a message, judged, and its JSON text. Plain text needs no judging beyond its meta."""
    if body.content is None:
        content = text_content(body.text) if body.text is not None else empty_content()
        if body.meta:
            content = {**content, "meta": body.meta}
            validate_content(content, streaming=body.stream)
        return content, json.dumps(content)
    content = body.content
    if body.meta:
        given = content.get("meta", {})
        if not isinstance(given, dict):
            raise InvalidRequest("meta is an object", pointer="/content/meta")
        content = {**content, "meta": {**given, **body.meta}}
    text = None
    with suppress(ValueError):  # nested so deeply that it cannot be written: that is found now
        text = json.dumps(content)
    validate_content(content, streaming=body.stream, text=text)
    if text is None:
        raise InvalidRequest("this is not JSON", pointer="/content")
    if content["meta"] and len(json.dumps(content["meta"]).encode()) > MAX_META_BYTES:
        raise LimitExceeded(
            f"meta_bytes is at most {MAX_META_BYTES}", detail={"limit": "meta_bytes", "max": MAX_META_BYTES}
        )
    return content, text


def append_command(grant: Grant, message_id: str, body: PatchesBody) -> AppendCommand:
    grant.require(Verb.SPEAK)
    return AppendCommand(message_id, body.patches, writer=grant)


def end_command(grant: Grant, message_id: str, body: EndBody) -> EndCommand:
    grant.require(Verb.SPEAK)
    return EndCommand(message_id, body.seq, MessageStatus(body.status), writer=grant)


def commit_command(grant: Grant, conversation_id: str, body: CommitBody, pushed: int = 0) -> CommitCommand:
    grant.require(Verb.COMMIT)
    return CommitCommand(conversation_id, grant.actor(body.actor), body.position, pushed, reader=grant)


def question_command(grant: Grant, conversation_id: str, body: QuestionBody, ids: Ids) -> OpenQuestion:
    grant.require(Verb.ASK)
    labels = body.labels
    return OpenQuestion(
        message_id=ids.make("msg"),
        conversation_id=conversation_id,
        actor=grant.actor(body.actor),
        to=body.to,
        effect_key=body.effect_key,
        terms=QuestionTerms(
            kind=body.kind,
            text=body.text,
            choices=tuple((choice.value, choice.label) for choice in body.choices),
            allow_other=body.allow_other,
            accept_label=labels.accepted if labels else None,
            decline_label=labels.declined if labels else None,
        ),
        timeout_ms=body.timeout_ms,
        reply_to_id=body.reply_to_id,
        speaker=grant,
    )
