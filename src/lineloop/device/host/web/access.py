"""Who may show this device: one-time codes that a link carries, and the keys that pages keep.

Decides how long a code and a key are good for, that the device proves itself before a page does, and that a
code is used up in the commit that keeps the key which comes of it. Of both only what checks them is stored.
Neither is ever sent, logged or part of an error.
"""

from __future__ import annotations

from lineloop.device.foundation import Foundation
from lineloop.device.host.web.handshake import (
    NONCE,
    Talk,
    Verifier,
    device_proof,
    next_key,
    proven_key,
    root_of,
    verifier_of,
)
from lineloop.device.store import shell as store
from lineloop.kit.database import Tx
from lineloop.kit.ids import Ids
from lineloop.kit.records import record
from lineloop.protocol.errors import InvalidRequest, NotFound, Unauthorized

CODE_LIFE_MS = 3600 * 1000
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


class Access:
    """The codes and keys of one device, for pages of `origin`."""

    def __init__(self, ids: Ids, origin: str) -> None:
        self._ids = ids
        self._origin = origin
        self._foundation: Foundation | None = None

    def use(self, foundation: Foundation) -> None:
        """Keep codes and keys here from now on."""
        self._foundation = foundation

    async def new_code(self) -> str:
        """A code that opens the shell once; of many codes the oldest end.

        Raises Unauthorized before the device has started, StorageUnavailable.
        """
        foundation = self._used()
        code = self._ids.secret()
        made = verifier_of(root_of(code))
        row = store.ShellKey(made.page_check, made.device_key)
        now, runtime_id = foundation.clock.now_ms(), foundation.runtime_id
        await foundation.write(
            lambda tx: store.insert_code(
                tx, runtime_id, made.name, row, now, since=now - CODE_LIFE_MS, kept=CODES
            )
        )
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
        now, runtime_id = foundation.clock.now_ms(), foundation.runtime_id

        def find(tx: Tx) -> store.ShellKey | None:
            return store.code_named(tx, runtime_id, name, **_good(now)) or store.key_named(
                tx, runtime_id, name, unused_since=now - KEY_UNUSED_MS
            )

        found = await foundation.read(find)
        if found is None:
            raise _not_let_in()
        verifier = Verifier(name, found.page_check, found.device_key)
        return Challenge(Talk(self._origin, name, nonce, self._ids.secret()), verifier)

    async def admit(self, challenge: Challenge, proof: str, browser: str) -> str:
        """Lets a page in by its proof; the name of its key. In one commit a code is used up and the key that
        comes of it, which `browser` keeps, is known.

        Raises Unauthorized, also for a code or key that has ended meanwhile; StorageUnavailable.
        """
        foundation = self._used()
        talk = challenge.talk
        shown = proven_key(challenge.verifier, talk, proof)
        if shown is None:
            raise _not_let_in()
        now, runtime_id = foundation.clock.now_ms(), foundation.runtime_id
        unused_since = now - KEY_UNUSED_MS
        made = verifier_of(root_of(next_key(shown, talk)))
        row = store.ShellKey(made.page_check, made.device_key)

        def enter(tx: Tx) -> str | None:
            if not store.use_code(tx, runtime_id, talk.name, **_good(now)):
                use = store.KeyUse(talk.name, browser, now, now)
                return talk.name if store.use_key(tx, runtime_id, use, unused_since=unused_since) else None
            fresh = store.KeyUse(made.name, browser, now, now)
            store.insert_key(tx, runtime_id, fresh, row, unused_since=unused_since, kept=KEYS)
            return made.name

        name = await foundation.write(enter)
        if name is None:
            raise _not_let_in()
        return name

    async def keys(self) -> list[store.KeyUse]:
        """The keys that let a page in now, the last used first. Raises StorageUnavailable."""
        foundation = self._used()
        unused_since = foundation.clock.now_ms() - KEY_UNUSED_MS
        return await foundation.read(
            lambda tx: store.keys(tx, foundation.runtime_id, unused_since=unused_since)
        )

    async def revoke(self, name: str) -> None:
        """From now on this key lets nobody in. Raises NotFound, StorageUnavailable."""
        foundation = self._used()
        if not await foundation.write(lambda tx: store.revoke_key(tx, foundation.runtime_id, name)):
            raise NotFound("there is no such key")

    def _used(self) -> Foundation:
        if self._foundation is None:
            raise Unauthorized("the device has not started yet")
        return self._foundation


def _good(now: int) -> dict[str, int]:
    """When a code that is good now was made. One from far in the future was made before the clock was set."""
    return {"since": now - CODE_LIFE_MS, "until": now + CODE_LIFE_MS}


def _not_let_in() -> Unauthorized:
    return Unauthorized("this page is not let in; open the link that `lineloop open` prints")
