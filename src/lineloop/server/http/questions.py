"""Routes of questions to people: ask, look, wait, answer."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from lineloop.kit import json
from lineloop.kit.clock import with_timeout
from lineloop.protocol.errors import ErrorCode, Forbidden
from lineloop.protocol.machines import QuestionState
from lineloop.protocol.questions import Question
from lineloop.protocol.requests import AnswerBody, QuestionBody, parse_body
from lineloop.server.commit.asking import question_not_found, read_question
from lineloop.server.commit.visibility import visible_conversation
from lineloop.server.decide.access import Grant, Verb
from lineloop.server.decide.questions import Reply
from lineloop.server.http.bodies import question_command, raw_body
from lineloop.server.http.documents import AnsweredDocument, QuestionDocument, document
from lineloop.server.http.lists import Query, json_response, text_response
from lineloop.server.http.routing import Routes
from lineloop.server.http.services import Services
from lineloop.server.wakeup.bus import Hint, ParticipantsChanged, QuestionClosed, Stopping

MAX_WAIT_MS = 60_000
RECHECK_SECONDS = 1.0
_MISSING = (ErrorCode.QUESTION_NOT_FOUND,)


class WaitQuery(Query):
    wait_ms: Annotated[int, Field(ge=0, le=MAX_WAIT_MS)] = 0


def question_routes(services: Services) -> Routes:
    router = Routes(prefix="/v1", tags=["questions"])
    commits = services.commits

    @router.post(
        "/conversations/{conversation_id}/questions",
        openapi_extra=document(
            QuestionDocument,
            body=QuestionBody,
            statuses=(200, 201),
            errors=(ErrorCode.CONVERSATION_NOT_FOUND, ErrorCode.QUESTION_CONFLICT),
        ),
    )
    async def ask(request: Request, conversation_id: str) -> Response:
        """201 for a new question, 200 for the one under the effect key."""
        grant = await services.grant(request, Verb.ASK)
        body = parse_body(QuestionBody, await raw_body(request))
        answer = await commits.open_question(question_command(grant, conversation_id, body, services.ids))
        return json_response(answer.question.to_wire(), 201 if answer.created else 200)

    @router.get(
        "/questions/{question_id}",
        openapi_extra=document(QuestionDocument, errors=_MISSING),
        query=WaitQuery,
    )
    async def get_question(request: Request, question_id: str, query: WaitQuery) -> Response:
        """The question; with `wait_ms` as soon as it is closed, at the latest after that time."""
        grant = await services.grant(request, Verb.READ)
        question = await _waited(services, grant, question_id, query.wait_ms / 1000)
        services.identity.require_valid(grant)
        response = json_response(question.to_wire())
        if query.wait_ms and question.state is QuestionState.PENDING and not services.ready:
            # Cut short by a stop: who goes on waiting finds another connection after that.
            response.headers["retry-after"] = str(ceil(services.settings.drain_retry_ms / 1000))
            response.headers["connection"] = "close"
        return response

    @router.post(
        "/questions/{question_id}/answer",
        openapi_extra=document(
            AnsweredDocument,
            body=AnswerBody,
            errors=(*_MISSING, ErrorCode.ANSWER_CONFLICT, ErrorCode.ANSWER_INVALID),
        ),
    )
    async def answer(request: Request, question_id: str) -> Response:
        """Only the person who was asked."""
        grant = await services.grant(request, Verb.ANSWER)
        body = parse_body(AnswerBody, await raw_body(request))
        if grant.person is None:
            raise Forbidden("only a person answers questions")
        await _require_visible(services, grant, question_id)
        reply = Reply(grant.person, body.reply_to_id, body.value)
        answered = await commits.answer(question_id, reply)
        assert answered.answer is not None
        question = json.dumps(answered.question.to_wire())
        return text_response(f'{{"question":{question},"answer":{answered.answer.to_json()}}}')

    return router


async def _require_visible(services: Services, grant: Grant, question_id: str) -> None:
    seen = await services.commits.read(
        lambda tx: visible_conversation(tx, read_question(tx, question_id)[0].conversation_id, grant)
    )
    if seen is None:
        raise question_not_found(question_id)


async def _waited(services: Services, grant: Grant, question_id: str, seconds: float) -> Question:
    """Listens first, then looks: nothing closes in between. Looks again, for a hint may be lost.

    Raises question_not_found, also for who does not see its conversation (any more).
    """
    closed = asyncio.Event()

    def hear(hint: Hint) -> None:
        mine = isinstance(hint, QuestionClosed) and hint.question_id == question_id
        left = isinstance(hint, ParticipantsChanged) and bool(hint.left)
        if mine or left or isinstance(hint, Stopping):
            closed.set()

    stop = services.bus.listen_all(hear)
    until = services.clock.monotonic() + seconds
    try:
        while True:
            closed.clear()
            await _require_visible(services, grant, question_id)
            question = (await services.commits.get_question(question_id)).question
            left = until - services.clock.monotonic()
            if question.state is not QuestionState.PENDING or left <= 0 or not services.ready:
                return question
            try:
                await with_timeout(services.clock, min(left, RECHECK_SECONDS), closed.wait())
            except TimeoutError:
                continue
    finally:
        stop()
