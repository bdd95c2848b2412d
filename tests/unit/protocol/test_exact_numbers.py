"""Numbers keep their digits through the codec, a patch and a request (spec/protocol.md §1.3)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineloop.kit import json
from lineloop.protocol.patches import apply_patch, empty_content
from lineloop.protocol.requests import PatchesBody, SpeakBody, parse_body

LONG = [
    "123456789012345678901234567890",
    "-9007199254740993",
    "0.1234567890123456789012345",
    "3.14159265358979323846264338327950288",
    "100000000000000000000.5",
    "1.50000000000000000000",
    "1.23456789012345678E-7",
]


@pytest.mark.requirement("L118")
@pytest.mark.parametrize("literal", LONG)
def test_the_codec_writes_the_digits_it_read(literal: str) -> None:
    assert json.dumps(json.loads(f'{{"n":{literal}}}')) == f'{{"n":{literal}}}'


@pytest.mark.requirement("L118")
@pytest.mark.parametrize("literal", LONG)
def test_spoken_content_keeps_the_digits(literal: str) -> None:
    raw = (
        '{"key":"k","content":{"version":"1.1","biz":"chat","meta":{},'
        f'"blocks":[{{"id":"n","type":"number","content":{literal}}}]}}}}'
    )
    body = parse_body(SpeakBody, raw.encode())
    assert f'"content":{literal}' in json.dumps(body.content)


@pytest.mark.requirement("L118")
@pytest.mark.parametrize("literal", LONG)
def test_a_patch_keeps_the_digits(literal: str) -> None:
    raw = f'{{"patches":[{{"op":"set","seq":1,"block":{{"id":"n","type":"number","content":{literal}}}}}]}}'
    body = parse_body(PatchesBody, raw.encode())
    assert f'"content":{literal}' in json.dumps(apply_patch(empty_content(), body.patches[0]))


def test_ordinary_decimals_stay_floats() -> None:
    assert type(json.loads("1.5")) is float
    assert type(json.loads("0.1")) is float


def test_a_text_that_looks_like_a_marked_number_stays_a_text() -> None:
    value = {"n": Decimal("1.25"), "t": "@number:00000000000000000000000000000000:1@"}
    assert json.dumps(value) == '{"n":1.25,"t":"@number:00000000000000000000000000000000:1@"}'


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity")])
def test_decimals_that_json_cannot_say_are_refused(value: Decimal) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        json.dumps({"n": value})


def test_canonical_bytes_tell_long_numbers_apart() -> None:
    assert json.canonical({"n": 2**53 + 1}) == b'{"n":9007199254740993}'
    assert json.canonical({"n": 2**60}) != json.canonical({"n": 2**60 + 1})
    one, other = json.loads("0.12345678901234567890"), json.loads("0.12345678901234567891")
    assert json.canonical(one) != json.canonical(other)
    assert json.canonical({"b": 2**60, "a": 1.0}) == b'{"a":1,"b":1152921504606846976}'


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, min_value=Decimal("-1e300"), max_value=Decimal("1e300")
    )
)
def test_every_decimal_comes_back_equal(value: Decimal) -> None:
    back: Any = json.loads(json.dumps({"n": value}))["n"]
    assert Decimal(str(back)) == value or (isinstance(back, float) and Decimal(repr(back)) == value)
