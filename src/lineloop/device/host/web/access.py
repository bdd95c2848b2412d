"""Who may show this device: one-time codes that a link carries, and the keys that pages keep.

Decides how long a code and a key are good for. Codes live in this process only; of a key only its digest is
stored. Neither is ever logged or part of an error.
"""

from __future__ import annotations

import hashlib

from lineloop.device.foundation import Foundation
from lineloop.device.store import shell as store
from lineloop.kit.ids import Ids
from lineloop.protocol.errors import Unauthorized

CODE_LIFE_SECONDS = 3600.0
CODES = 64
KEY_UNUSED_MS = 90 * 24 * 3600 * 1000
KEYS = 64


class Access:
    """The codes and keys of one device."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._codes: dict[str, float] = {}
        self._foundation: Foundation | None = None

    def use(self, foundation: Foundation) -> None:
        """Keep keys here from now on."""
        self._foundation = foundation

    def new_code(self, now: float) -> str:
        """A code that opens the shell once. `now` in monotonic seconds; of many codes the oldest end."""
        code = self._ids.secret()
        self._codes[_digest(code)] = now + CODE_LIFE_SECONDS
        while len(self._codes) > CODES:
            del self._codes[next(iter(self._codes))]
        return code

    async def admit(self, *, code: str | None, key: str | None) -> str | None:
        """Lets a page in by its code or its key; the new key when it came by a code.

        Raises Unauthorized for a code that is wrong, used or too old, for an unknown key, and for neither;
        StorageUnavailable.
        """
        foundation = self._foundation
        if foundation is None:
            raise Unauthorized("the device has not started yet")
        now = foundation.clock.now_ms()
        unused_since = now - KEY_UNUSED_MS
        runtime_id = foundation.runtime_id
        if code is not None:
            good_until = self._codes.pop(_digest(code), None)
            if good_until is not None and foundation.clock.monotonic() < good_until:
                made = self._ids.secret()
                digest = _digest(made)
                await foundation.write(
                    lambda tx: store.insert_key(
                        tx, runtime_id, digest, now, unused_since=unused_since, kept=KEYS
                    )
                )
                return made
        elif key is not None:
            digest = _digest(key)
            if await foundation.write(
                lambda tx: store.use_key(tx, runtime_id, digest, now, unused_since=unused_since)
            ):
                return None
        raise Unauthorized("this page is not let in; open the link that `lineloop open` prints")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
