"""Messages of a WebSocket as bytes, cut out of a stream and written into one (RFC 6455, section 5.2).

Decides nothing but where a frame ends and whether it is a whole message. Everything else (the handshake,
pings, closing, messages in parts, refusals) belongs to the library, which gets those bytes as they came: only
the frames that make up nearly all of a link's traffic go past it, because they are the cost of a call.
"""

from __future__ import annotations

import os

from websockets.utils import apply_mask

from lineloop.kit.records import record

_TEXT, _BINARY = 0x81, 0x82
_WHOLE = (_TEXT, _BINARY)
_MASKED = 0x80
_SIZE = 0x7F
_TWO_BYTES, _EIGHT_BYTES = 126, 127
_DATA_OPCODES = (0x0, 0x1, 0x2)
_POOL_BYTES = 4096


@record
class Other:
    """Bytes for the library, as they came. `begins`: with them begins a message that it will put together."""

    data: bytes
    begins: bool = False


class FrameCutter:
    """Cuts what one side of a connection receives. `masked`: that side is the server.

    What breaks a rule (a mask missing, a message larger than `max_bytes`) goes to the library with everything
    after it, and is refused there.
    """

    def __init__(self, *, masked: bool, max_bytes: int) -> None:
        self._masked = masked
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._needed = 0
        self._in_parts = False
        self._given_up = False

    @property
    def given_up(self) -> bool:
        """Whether everything from here on is for the library."""
        return self._given_up

    def give_up(self) -> None:
        self._given_up = True

    def cut(self, data: bytes) -> list[str | bytes | Other]:
        """What `data` completes, in order: texts, binary messages, and what is for the library."""
        if self._given_up:
            return [Other(data)]
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data = bytes(self._rest)
            self._rest.clear()
        found: list[str | bytes | Other] = []
        start, end = 0, len(data)
        while start < end:
            size = self._frame_bytes(data, start)
            if self._given_up:
                found.append(Other(data[start:]))
                return found
            if size is None or start + size > end:
                self._needed = size or 0
                self._rest += data[start:]
                return found
            found.append(self._frame(data, start, start + size))
            start += size
        return found

    def _frame_bytes(self, data: bytes, start: int) -> int | None:
        """How long the frame is that begins here; None when its head is not there yet."""
        there = len(data) - start
        if there < 2:
            return None
        second = data[start + 1]
        size, head = second & _SIZE, 2
        if size == _TWO_BYTES:
            head = 4
        elif size == _EIGHT_BYTES:
            head = 10
        if there < head:
            return None
        if head > 2:
            size = int.from_bytes(data[start + 2 : start + head])
        if bool(second & _MASKED) is not self._masked or size > self._max_bytes:
            self._given_up = True
        return head + size + (4 if self._masked else 0)

    def _frame(self, data: bytes, start: int, end: int) -> str | bytes | Other:
        first = data[start]
        if first in _WHOLE and not self._in_parts:
            size = data[start + 1] & _SIZE
            at = start + (2 if size < _TWO_BYTES else 4 if size == _TWO_BYTES else 10)
            if self._masked:
                payload = apply_mask(data[at + 4 : end], data[at : at + 4])
            else:
                payload = data[at:end]
            if first == _BINARY:
                return payload
            try:
                return str(payload, "utf-8")
            except UnicodeDecodeError:
                pass  # The library has the words for it.
        elif first & 0x0F in _DATA_OPCODES:
            self._in_parts = not first & 0x80
        return Other(data[start:end], begins=first & 0x0F in (0x1, 0x2))


def text_frame(text: str) -> bytes:
    """A message of a server as one frame."""
    payload = text.encode()
    return _head(len(payload), 0) + payload


class MaskedFrames:
    """Messages of a client as frames, each under a mask that nobody can foresee."""

    def __init__(self) -> None:
        self._masks = b""
        self._at = 0

    def text_frame(self, text: str) -> bytes:
        if self._at >= len(self._masks):
            self._masks, self._at = os.urandom(_POOL_BYTES), 0
        mask = self._masks[self._at : self._at + 4]
        self._at += 4
        payload = text.encode()
        return _head(len(payload), _MASKED) + mask + apply_mask(payload, mask)


def _head(size: int, masked: int) -> bytes:
    if size < _TWO_BYTES:
        return bytes((_TEXT, masked | size))
    if size < 1 << 16:
        return bytes((_TEXT, masked | _TWO_BYTES)) + size.to_bytes(2)
    return bytes((_TEXT, masked | _EIGHT_BYTES)) + size.to_bytes(8)
