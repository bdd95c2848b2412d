"""The head of an answer and its body leave together."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from lineloop.cli.connections import HeadWithBody

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Taken:
    """Stands for a transport: what was written, and what else was called."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("closed")

    def abort(self) -> None:
        self.done.append("aborted")

    def is_closing(self) -> bool:
        return False


@pytest.fixture
def taken() -> Taken:
    return Taken()


def over(taken: Taken) -> HeadWithBody:
    return HeadWithBody(cast("asyncio.Transport", taken), asyncio.get_running_loop())


async def test_a_head_leaves_with_the_first_bytes_of_its_body(taken: Taken) -> None:
    transport = over(taken)
    transport.write(HEAD)
    transport.write(b"body")
    transport.write(b"more")
    assert taken.done == [HEAD + b"body", b"more"]
    assert not transport.is_closing()


async def test_a_head_without_a_body_leaves_at_the_end_of_the_turn(taken: Taken) -> None:
    transport = over(taken)
    transport.write(HEAD)
    assert taken.done == []
    await asyncio.get_running_loop().run_in_executor(None, int)
    assert taken.done == [HEAD]


async def test_a_large_body_is_not_copied_for_its_head(taken: Taken) -> None:
    large = b"x" * 1_000_000
    transport = over(taken)
    transport.write(HEAD)
    transport.write(large)
    assert taken.done == [HEAD, large]


async def test_closing_sends_the_head_and_aborting_does_not(taken: Taken) -> None:
    transport = over(taken)
    transport.write(HEAD)
    transport.close()
    transport.write(HEAD)
    transport.abort()
    await asyncio.get_running_loop().run_in_executor(None, int)
    assert taken.done == [HEAD, "closed", "aborted"]
