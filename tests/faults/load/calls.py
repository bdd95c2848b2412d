"""HTTP calls that are repeated until somebody answers, every attempt recorded with what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from typing import Any

import httpx

from lineloop.testing.history import History, Operation, Outcome

Json = dict[str, Any]
# (began, ended, outcome, answer) of one attempt to what is recorded of it, if anything.
Record = Callable[[float, float, Outcome, Json], Operation | None]

# Answers that leave open whether it was stored, or say that it was not but will be if tried again.
_AGAIN = (429, 502, 503, 504)
_LONGEST_PAUSE_SECONDS = 1.0


class NotAnswered(Exception):
    """Refused for good: a fault of the load or of the server."""


class Caller:
    """One actor's way to the servers: whichever of them answers."""

    def __init__(self, client: httpx.AsyncClient, urls: list[str], token: str, dice: random.Random) -> None:
        self._client = client
        self._urls = urls
        self.token = token
        self.dice = dice

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    def url(self) -> str:
        return self.dice.choice(self._urls)

    async def once(self, method: str, path: str, body: Json | None = None, **params: Any) -> httpx.Response:
        """One attempt. Raises httpx.HTTPError."""
        address = f"{self.url()}/v1{path}"
        return await self._client.request(method, address, json=body, params=params, headers=self.headers)

    async def get(self, path: str, **params: Any) -> Json:
        """Reads, as often as it takes."""
        return await self.until_done("GET", path, None, **params)

    async def until_done(
        self,
        method: str,
        path: str,
        body: Json | None,
        *,
        history: History | None = None,
        record: Record | None = None,
        refused: tuple[int, ...] = (),
        **params: Any,
    ) -> Json:
        """Repeats the same request until it is answered. A status in `refused` is an answer too, `{}`.

        Raises NotAnswered for any other refusal.
        """
        pause = 0.02
        while True:
            began = time.monotonic()
            answer: httpx.Response | None = None
            with contextlib.suppress(httpx.HTTPError):
                answer = await self.once(method, path, body, **params)
            ended = time.monotonic()
            outcome = _outcome(answer)
            told: Json = (
                answer.json() if answer is not None and outcome is Outcome.DONE and answer.content else {}
            )
            if history is not None and record is not None:
                operation = record(began, ended, outcome, told)
                if operation is not None:
                    history.add(operation)
            if outcome is Outcome.DONE:
                return told
            if answer is not None and outcome is Outcome.REFUSED:
                if answer.status_code in refused:
                    return {}
                raise NotAnswered(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            await asyncio.sleep(pause * self.dice.uniform(0.5, 1.5))
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _outcome(answer: httpx.Response | None) -> Outcome:
    if answer is None or answer.status_code in _AGAIN:
        return Outcome.UNKNOWN
    return Outcome.DONE if answer.is_success else Outcome.REFUSED
