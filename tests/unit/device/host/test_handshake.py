"""What a page and the device prove to each other; the same cases are read by the page's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lineloop.device.host.web.handshake import (
    Talk,
    device_proof,
    is_page,
    next_key,
    page_proof,
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
    assert next_key(root, talk) == case["next_key"]
    assert is_page(verifier, talk, case["page_proof"])


def test_a_proof_of_another_conversation_counts_for_nothing() -> None:
    one, *others = CASES[:3]
    verifier = verifier_of(root_of(one["secret"]))
    talk = Talk(one["origin"], one["name"], one["page_nonce"], one["device_nonce"])
    for proof in (*(other["page_proof"] for other in others), one["device_proof"], "", "zz", "00" * 32):
        assert not is_page(verifier, talk, proof)


def test_what_the_device_keeps_does_not_let_anybody_in() -> None:
    one = CASES[0]
    verifier = verifier_of(root_of(one["secret"]))
    talk = Talk(one["origin"], one["name"], one["page_nonce"], one["device_nonce"])
    for stolen in (verifier.page_check, verifier.device_key):
        assert not is_page(verifier, talk, page_proof(stolen, talk))
