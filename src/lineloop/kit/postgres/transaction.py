"""What a job sees of PostgreSQL. When a transaction begins and ends is decided by lanes and readers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import cast

from lineloop.kit.database import Params, Row
from lineloop.kit.postgres.session import Answer, Session, StatementFailed
from lineloop.kit.postgres.statements import Statement, translated

_NOTHING: tuple[object, ...] = ()
_LOCK = translated("SELECT pg_advisory_xact_lock(CAST(:number AS BIGINT))")
SAVEPOINT = translated("SAVEPOINT job")


def lock_number(name: str) -> int:
    """The advisory lock of a name, the same in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


class PgTx:
    """One run of one job. `locks` are those that its transaction holds already; with `guarded`, a savepoint
    stands before its first write. A job whose statement failed cannot go on.
    """

    __slots__ = ("_guarded", "_locks", "_session", "callbacks", "saved", "undoing")

    shared = True

    def __init__(self, session: Session, locks: set[str], *, guarded: bool = False) -> None:
        self._session = session
        self._locks = locks
        self._guarded = guarded
        self.saved = False
        self.callbacks: list[Callable[[], object]] = []
        self.undoing: list[Callable[[], object]] = []

    def execute(self, sql: str, params: Params = _NOTHING) -> Iterator[Row]:
        return iter(cast("list[Row]", self._ask(sql, params).rows))

    def one(self, sql: str, params: Params = _NOTHING) -> Row | None:
        rows = self._ask(sql, params).rows
        return cast("Row", rows[0]) if rows else None

    def all(self, sql: str, params: Params = _NOTHING) -> list[Row]:
        return cast("list[Row]", self._ask(sql, params).rows)

    def run(self, sql: str, params: Params = _NOTHING) -> int:
        return self._ask(sql, params).touched

    def put(self, sql: str, params: Params = _NOTHING) -> None:
        statement = translated(sql)
        values = statement.values(params)
        try:
            self._guard(statement)
            self._session.tell(statement, values)
        except StatementFailed as failure:
            raise failure.error from None

    def later(self, sql: str, params: Params = _NOTHING) -> Callable[[], list[Row]]:
        statement = translated(sql)
        values = statement.values(params)
        session = self._session
        try:
            self._guard(statement)
            promised = session.promise(statement, values)
        except StatementFailed as failure:
            raise failure.error from None

        def rows() -> list[Row]:
            if promised.answer is None:
                try:
                    session.collect(promised)
                except StatementFailed as failure:
                    raise failure.error from None
            assert promised.answer is not None
            return cast("list[Row]", promised.answer.rows)

        return rows

    def after_commit(self, callback: Callable[[], object]) -> None:
        self.callbacks.append(callback)

    def if_undone(self, callback: Callable[[], object]) -> None:
        self.undoing.append(callback)

    def lock(self, name: str) -> None:
        if name not in self._locks:
            self._locks.add(name)
            self._session.tell(_LOCK, [b"%d" % lock_number(name)])

    def _ask(self, sql: str, params: Params) -> Answer:
        statement = translated(sql)
        values = statement.values(params)
        try:
            self._guard(statement)
            return self._session.ask(statement, values)
        except StatementFailed as failure:
            raise failure.error from None

    def _guard(self, statement: Statement) -> None:
        if self._guarded and not self.saved and not statement.reads:
            self._session.tell(SAVEPOINT)
            self.saved = True
