"""The page's half of letting in (spec/protocol.md §10.3), for tests that play a page.

proof = PageProof(code, "http://127.0.0.1:8765")
challenge = ask("hello", **proof.hello, tab=…, versions=[3])
welcome = ask("prove", proof=proof.answer(challenge))
proof.key  # lets the page in from now on, when the secret was a code
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from lineloop.device.host.web.handshake import (
    Talk,
    device_proof,
    next_key,
    page_key,
    page_proof,
    root_of,
    verifier_of,
)


class NotTheDevice(AssertionError):
    """Who answered does not know the secret."""


class PageProof:
    """One try to be let in with a code or a key."""

    def __init__(self, secret: str, origin: str) -> None:
        self._root = root_of(secret)
        self._origin = origin.rstrip("/")
        self._verifier = verifier_of(self._root)
        self._nonce = secrets.token_urlsafe(32)
        self._talk: Talk | None = None

    @property
    def hello(self) -> dict[str, str]:
        return {"name": self._verifier.name, "nonce": self._nonce}

    def answer(self, challenge: Mapping[str, Any]) -> str:
        """The page's proof. Raises NotTheDevice."""
        talk = Talk(self._origin, self._verifier.name, self._nonce, challenge["nonce"])
        if challenge["proof"] != device_proof(self._verifier, talk):
            raise NotTheDevice
        self._talk = talk
        return page_proof(self._root, talk)

    @property
    def key(self) -> str:
        """What the page keeps when it came by a code."""
        assert self._talk is not None, "the device has not answered yet"
        return next_key(page_key(self._root), self._talk)
