"""Frames of a WebSocket: whole messages are cut out, everything else is left to the library."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from websockets.frames import Frame, Opcode

from lineloop.kit.text_frames import FrameCutter, MaskedFrames, Other, text_frame

LIMIT = 70_000
TEXTS = ["", "a", "ä" * 60, "x" * 125, "x" * 126, "x" * 65_535, "y" * 65_536, "漢" * 1000]


def frame(opcode: Opcode, data: bytes, *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=mask)


def cut(stream: bytes, *, masked: bool, pieces: int) -> list[str | bytes | Other]:
    """The stream cut when it comes in that many pieces of random sizes."""
    cutter = FrameCutter(masked=masked, max_bytes=LIMIT)
    places = sorted(random.Random(pieces).sample(range(len(stream)), pieces - 1))
    bounds = [0, *places, len(stream)]
    found: list[str | bytes | Other] = []
    for start, end in pairwise(bounds):
        found += cutter.cut(stream[start:end])
    return found


@pytest.mark.parametrize("pieces", [1, 2, 3, 50, 1000])
def test_messages_come_out_whole_however_the_bytes_arrive(pieces: int) -> None:
    client, server = MaskedFrames(), [text_frame(text) for text in TEXTS]
    assert cut(b"".join(map(client.text_frame, TEXTS)), masked=True, pieces=pieces) == TEXTS
    assert cut(b"".join(server), masked=False, pieces=pieces) == TEXTS
    by_library = b"".join(frame(Opcode.TEXT, text.encode()) for text in TEXTS)
    assert cut(by_library, masked=True, pieces=pieces) == TEXTS


@pytest.mark.parametrize("pieces", [1, 7, 40])
def test_what_is_no_whole_message_goes_to_the_library_as_it_came(pieces: int) -> None:
    ping, close = frame(Opcode.PING, b"there?"), frame(Opcode.CLOSE, b"\x03\xe8")
    first, middle = frame(Opcode.TEXT, b"one ", fin=False), frame(Opcode.CONT, b"two ", fin=False)
    last, wrong = frame(Opcode.CONT, b"three"), frame(Opcode.TEXT, b"\xff")
    stream = b"".join([ping, first, middle, ping, last, frame(Opcode.BINARY, b"\x00\x01"), wrong, close])
    assert cut(stream, masked=True, pieces=pieces) == [
        Other(ping),
        Other(first, begins=True),
        Other(middle),
        Other(ping),
        Other(last),
        b"\x00\x01",
        Other(wrong, begins=True),
        Other(close),
    ]


@pytest.mark.parametrize(
    "breach",
    [frame(Opcode.TEXT, b"bare", mask=False), frame(Opcode.TEXT, b"x" * (LIMIT + 1))],
    ids=["no mask", "too large"],
)
def test_after_a_breach_everything_goes_to_the_library(breach: bytes) -> None:
    cutter = FrameCutter(masked=True, max_bytes=LIMIT)
    good = MaskedFrames().text_frame("good")
    assert cutter.cut(good + breach[:20]) == ["good", Other(breach[:20])]
    assert cutter.given_up
    assert cutter.cut(breach[20:] + good) == [Other(breach[20:] + good)]
