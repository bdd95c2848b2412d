"""What a page and the device prove to each other; the same cases are read by the page's tests."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lineloop.device.host.web.handshake import (
    Talk,
    device_proof,
    next_key,
    page_key,
    page_proof,
    proven_key,
    root_of,
    verifier_of,
)
from lineloop.kit import json

GOLDEN = Path(__file__).parents[4] / "spec" / "golden" / "shell" / "handshake.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_both_sides_compute_the_same(case: dict[str, Any]) -> None:
    root = root_of(case["secret"])
    verifier = verifier_of(root)
    talk = Talk(case["origin"], case["name"], case["page_nonce"], case["device_nonce"])
    assert verifier.name == case["name"]
    assert device_proof(verifier, talk) == case["device_proof"]
    assert page_proof(root, talk) == case["page_proof"]
    assert next_key(page_key(root), talk) == case["next_key"]
    assert proven_key(verifier, talk, case["page_proof"]) == page_key(root)


def test_a_proof_of_another_conversation_counts_for_nothing() -> None:
    one, *others = CASES[:3]
    verifier = verifier_of(root_of(one["secret"]))
    talk = Talk(one["origin"], one["name"], one["page_nonce"], one["device_nonce"])
    for proof in (*(other["page_proof"] for other in others), one["device_proof"], "", "zz", "00" * 32):
        assert proven_key(verifier, talk, proof) is None


def test_what_the_device_keeps_does_not_let_anybody_in() -> None:
    one = CASES[0]
    verifier = verifier_of(root_of(one["secret"]))
    talk = Talk(one["origin"], one["name"], one["page_nonce"], one["device_nonce"])
    for stolen in (verifier.page_check, verifier.device_key):
        assert proven_key(verifier, talk, page_proof(stolen, talk)) is None


@pytest.mark.requirement("H07")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_the_digest_that_older_versions_stored_lets_nobody_in(case: dict[str, Any]) -> None:
    old_root = sha256(case["secret"].encode()).digest()
    assert old_root.hex() == case["old_root"]
    assert root_of(case["secret"]) != old_root
    verifier = verifier_of(root_of(case["secret"]))
    talk = Talk(case["origin"], case["name"], case["page_nonce"], case["device_nonce"])
    assert page_proof(old_root, talk) == case["old_page_proof"]
    assert proven_key(verifier, talk, case["old_page_proof"]) is None


def test_a_secret_longer_than_a_block_is_not_taken_for_its_digest() -> None:
    long = "x" * 200
    assert root_of(long) != root_of(sha256(long.encode()).digest().decode("latin-1"))
