"""Identifiers: time-ordered, unique, unguessable where they must be.

Order of ids is a convenience for indexes only. What comes first is decided by counters under a row lock,
never by comparing ids.
"""

from __future__ import annotations

import base64
import os
import random
import threading

from lineloop.kit.clock import Clock

_RANDOM_BITS = 74
_RANDOM_SPACE = 1 << _RANDOM_BITS
_STEP_BITS = 24
_POOL_BYTES = 4096


class _Pool:
    """Random bits of the operating system, fetched many at a time: each call gives up the interpreter's
    lock, and ids are made on every hot path. Not for secrets, which must not lie around in memory.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self._at = 0

    def bits(self, count: int) -> int:
        size = (count + 7) // 8
        if self._at + size > len(self._bytes):
            self._bytes, self._at = os.urandom(_POOL_BYTES), 0
        value = int.from_bytes(self._bytes[self._at : self._at + size])
        self._at += size
        return value >> (size * 8 - count)


class Ids:
    """A source of UUIDv7 ids, increasing within this process even when the clock stands still or goes back.

    `random` makes the sequence repeatable in tests; without it randomness comes from the operating system.
    Safe to use from several threads.
    """

    def __init__(self, clock: Clock, random: random.Random | None = None) -> None:
        self._clock = clock
        self._random = random
        self._bits = random.getrandbits if random is not None else _Pool().bits
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last_random = 0

    def uuid7(self) -> str:
        """An RFC 9562 version 7 UUID in its usual text form."""
        digits = self._next()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def make(self, prefix: str) -> str:
        """`prefix_` and 32 hexadecimal digits."""
        return f"{prefix}_{self._next()}"

    def secret(self, nbytes: int = 32) -> str:
        """URL-safe text carrying `nbytes` random bytes, for tokens and cookies."""
        raw = self._random.randbytes(nbytes) if self._random is not None else os.urandom(nbytes)
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def _next(self) -> str:
        with self._lock:
            now = self._clock.now_ms()
            if now > self._last_ms:
                self._last_ms = now
                # The top bit stays free so that steps within one millisecond have room.
                self._last_random = self._bits(_RANDOM_BITS - 1)
            else:
                self._last_random += 1 + self._bits(_STEP_BITS)
                if self._last_random >= _RANDOM_SPACE:
                    self._last_ms += 1
                    self._last_random = self._bits(_RANDOM_BITS - 1)
            ms, rest = self._last_ms, self._last_random
        high = (ms << 16) | 0x7000 | (rest >> 62)
        low = (0b10 << 62) | (rest & 0x3FFF_FFFF_FFFF_FFFF)
        return f"{high:016x}{low:016x}"
