"""How a page and the device prove to each other that they know one secret, without saying it (spec §10.3).

Decides what is computed from a secret and from what both sides have said; pure. The device proves itself
first, so whoever listens on its port in its place learns nothing. What the device keeps of a secret
(`Verifier`) is enough to check a page and not enough to pass for one, as in SCRAM (RFC 5802). That holds for
codes too: the key that comes of one is made of what the page's proof shows. The secrets are long and random,
so nothing here is made slow on purpose.
"""

from __future__ import annotations

import hmac
import re
from base64 import urlsafe_b64encode
from hashlib import sha256

from lineloop.kit.records import record

NONCE = re.compile(r"[A-Za-z0-9_-]{32,128}")
_NAME_CHARS = 32
_ROOT = b"lineloop shell root"


@record
class Verifier:
    """What the device keeps of a secret: its public name, what checks a page, what proves the device."""

    name: str
    page_check: bytes
    device_key: bytes


@record
class Talk:
    """What both sides have said in the open. The origin keeps proofs from being passed on to another port."""

    origin: str
    name: str
    page_nonce: str
    device_nonce: str

    @property
    def text(self) -> bytes:
        parts = ("lineloop shell 3", self.origin, self.name, self.page_nonce, self.device_nonce)
        return "\n".join(parts).encode()


def root_of(secret: str) -> bytes:
    """The one value that everything else comes from.

    The label is the key of this HMAC: the plain digest of a secret, which older versions stored and which
    stands in copies of their databases, is then of no use to whoever reads it there.
    """
    return _mac(_ROOT, secret.encode())


def verifier_of(root: bytes) -> Verifier:
    name = _mac(root, b"lineloop shell name").hex()[:_NAME_CHARS]
    return Verifier(name, sha256(page_key(root)).digest(), _mac(root, b"lineloop shell device"))


def device_proof(verifier: Verifier, talk: Talk) -> str:
    """What only a device that knows the page's secret can say."""
    return _mac(verifier.device_key, talk.text).hex()


def page_proof(root: bytes, talk: Talk) -> str:
    """What only a page that knows the secret can say; the page's half, for tests and other clients."""
    key = page_key(root)
    return _xor(key, _mac(sha256(key).digest(), talk.text)).hex()


def proven_key(verifier: Verifier, talk: Talk, proof: str) -> bytes | None:
    """What the page that said `proof` showed of its secret; None when it does not know the secret."""
    try:
        said = bytes.fromhex(proof)
    except ValueError:
        return None
    if len(said) != len(verifier.page_check):
        return None
    key = _xor(said, _mac(verifier.page_check, talk.text))
    return key if hmac.compare_digest(sha256(key).digest(), verifier.page_check) else None


def page_key(root: bytes) -> bytes:
    """What a page shows by its proof: the page's half, for tests and other clients."""
    return _mac(root, b"lineloop shell page")


def next_key(page_key: bytes, talk: Talk) -> str:
    """The key that a page keeps after it came by a code; both sides compute it, nobody sends it."""
    made = _mac(page_key, b"lineloop shell key\n" + talk.text)
    return urlsafe_b64encode(made).decode().rstrip("=")


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
