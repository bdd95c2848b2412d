"""SQL with named parameters as PostgreSQL reads it."""

from __future__ import annotations

import enum

import pytest

pytest.importorskip("psycopg")

from lineloop.kit.postgres.statements import as_text, translated
from lineloop.kit.postgres.transaction import lock_number


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("sql", "text", "names"),
    [
        ("SELECT 1", "SELECT 1", ()),
        ("SELECT :a, :b, :a", "SELECT $1, $2, $1", ("a", "b")),
        (
            "SELECT ':a', \":b\", :c::TEXT -- :d\n, :e",
            "SELECT ':a', \":b\", $1::TEXT -- :d\n, $2",
            ("c", "e"),
        ),
        ("SELECT 'it''s :a' || :a", "SELECT 'it''s :a' || $1", ("a",)),
        ("VALUES (?, '?', ?)", "VALUES ($1, '?', $2)", None),
    ],
)
def test_parameters_become_numbers(sql: str, text: str, names: tuple[str, ...] | None) -> None:
    statement = translated(sql)
    assert (statement.text.decode(), statement.names) == (text, names)
    assert translated(sql) is statement


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT 1", True),
        ("\n  select x FROM y", True),
        ("SELECT x FROM y FOR UPDATE", False),
        ("INSERT INTO y VALUES (1)", False),
        ("WITH x AS (DELETE FROM y RETURNING z) SELECT * FROM x", False),
    ],
)
def test_what_only_reads_is_known(sql: str, reads: bool) -> None:
    assert translated(sql).reads is reads


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("ä", "ä".encode()),
        (Colour.RED, b"red"),
        (2**62, str(2**62).encode()),
        (True, b"1"),
        (1.5, b"1.5"),
        (b"\x00\xff", b"\\x00ff"),
    ],
)
def test_values_travel_as_text(value: object, text: bytes | None) -> None:
    assert as_text(value) == text


def test_what_no_text_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        as_text("a\0b")
    with pytest.raises(TypeError):
        as_text([1])


def test_a_lock_has_the_same_number_in_every_process() -> None:
    assert lock_number("con_1") == 8169948654452639698
    assert -(2**63) <= lock_number("x") < 2**63
