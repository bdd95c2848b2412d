"""Who may show this device: one-time codes that a link carries, and the keys that pages keep.

Decides how long a code and a key are good for, and that the device proves itself before a page does. Codes
live in this process only; of a key only what checks it is stored. Neither is ever sent, logged or part of an
error.
"""

from __future__ import annotations

from lineloop.device.foundation import Foundation
from lineloop.device.host.web.handshake import (
    NONCE,
    Talk,
    Verifier,
    device_proof,
    is_page,
    next_key,
    root_of,
    verifier_of,
)
from lineloop.device.store import shell as store
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.errors import InvalidRequest, Unauthorized

CODE_LIFE_SECONDS = 3600.0
CODES = 64
KEY_UNUSED_MS = 90 * 24 * 3600 * 1000
KEYS = 64


@record
class Challenge:
    """What a page is answered that named its secret: it proves the device, and asks for the page's proof."""

    talk: Talk
    verifier: Verifier

    def to_wire(self) -> dict[str, str]:
        return {"nonce": self.talk.device_nonce, "proof": device_proof(self.verifier, self.talk)}


@record
class _Code:
    root: bytes
    good_until: float


class Access:
    """The codes and keys of one device, for pages of `origin`."""

    def __init__(self, ids: Ids, origin: str) -> None:
        self._ids = ids
        self._origin = origin
        self._codes: dict[str, _Code] = {}
        self._foundation: Foundation | None = None

    def use(self, foundation: Foundation) -> None:
        """Keep keys here from now on."""
        self._foundation = foundation

    def new_code(self, now: float) -> str:
        """A code that opens the shell once. `now` in monotonic seconds; of many codes the oldest end."""
        code = self._ids.secret()
        root = root_of(code)
        self._codes[verifier_of(root).name] = _Code(root, now + CODE_LIFE_SECONDS)
        while len(self._codes) > CODES:
            del self._codes[next(iter(self._codes))]
        return code

    async def challenge(self, name: str | None, nonce: str | None) -> Challenge:
        """The device's half, for a page that knows the secret of this name.

        Raises Unauthorized for no name and for that of no code or key that is good now, InvalidRequest for a
        nonce that is none, StorageUnavailable.
        """
        foundation = self._used()
        if name is None or nonce is None:
            raise _not_let_in()
        if NONCE.fullmatch(nonce) is None:
            raise InvalidRequest("this is no nonce", pointer="/nonce")
        code = self._code(name)
        if code is not None:
            verifier = verifier_of(code.root)
        else:
            unused_since = foundation.clock.now_ms() - KEY_UNUSED_MS
            found = await foundation.read(
                lambda tx: store.key_named(tx, foundation.runtime_id, name, unused_since=unused_since)
            )
            if found is None:
                raise _not_let_in()
            verifier = Verifier(name, found.page_check, found.device_key)
        return Challenge(Talk(self._origin, name, nonce, self._ids.secret()), verifier)

    async def admit(self, challenge: Challenge, proof: str) -> None:
        """Lets a page in by its proof. A code is used up by that, and a new key is known from now on.

        Raises Unauthorized, also for a code or key that has ended meanwhile; StorageUnavailable.
        """
        foundation = self._used()
        if not is_page(challenge.verifier, challenge.talk, proof):
            raise _not_let_in()
        now, runtime_id = foundation.clock.now_ms(), foundation.runtime_id
        unused_since, name = now - KEY_UNUSED_MS, challenge.talk.name
        code = self._code(name)
        if code is not None:
            del self._codes[name]
            made = verifier_of(root_of(next_key(code.root, challenge.talk)))
            row = store.ShellKey(made.page_check, made.device_key)
            await foundation.write(
                lambda tx: store.insert_key(
                    tx, runtime_id, made.name, row, now, unused_since=unused_since, kept=KEYS
                )
            )
            return
        if not await foundation.write(
            lambda tx: store.use_key(tx, runtime_id, name, now, unused_since=unused_since)
        ):
            raise _not_let_in()

    def _code(self, name: str) -> _Code | None:
        """A code that is good now."""
        code = self._codes.get(name)
        return code if code is not None and self._used().clock.monotonic() < code.good_until else None

    def _used(self) -> Foundation:
        if self._foundation is None:
            raise Unauthorized("the device has not started yet")
        return self._foundation


def _not_let_in() -> Unauthorized:
    return Unauthorized("this page is not let in; open the link that `lineloop open` prints")
