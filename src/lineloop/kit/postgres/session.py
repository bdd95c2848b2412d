"""One connection in pipeline mode: statements are sent without waiting, until an answer is wanted.

Decides nothing about transactions. `tell` sends, `ask` sends and waits for the rows, `settle` waits for
everything. An error belongs to the `owner` of the statement that met it, who may have ended by the time it is
known. Used by one thread at a time.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from lineloop.kit.postgres.failures import ConnectionLost, is_connection_gone
from lineloop.kit.postgres.statements import Statement

# The server ends what takes longer; this is for a server that does not answer any more.
ANSWER_SECONDS = 60.0
# Of one connection; what comes beyond is sent whole each time.
_MAX_PREPARED = 500
_SYNC = b""
_ABORTED = pq.ExecStatus.PIPELINE_ABORTED
_SYNCED = pq.ExecStatus.PIPELINE_SYNC
_ROWS = pq.ExecStatus.TUPLES_OK
_DONE = pq.ExecStatus.COMMAND_OK


class PgRow(tuple[Any, ...]):
    """A row: values by place and by name. One subclass per shape holds the names."""

    __slots__ = ()
    places: dict[str, int]

    def __getitem__(self, name: Any) -> Any:
        return tuple.__getitem__(self, self.places[name] if type(name) is str else name)

    def keys(self) -> list[str]:
        return list(self.places)


class Answer(NamedTuple):
    """The rows of a statement, and how many rows it touched."""

    rows: list[PgRow]
    touched: int


class Sent:
    """A statement on its way; one that `keeps` its answer has it when it came."""

    __slots__ = ("answer", "keeps", "owner", "prepares", "statement")

    def __init__(
        self,
        statement: Statement | None,
        owner: object,
        *,
        prepares: bool = False,
        keeps: bool = False,
    ) -> None:
        self.statement = statement
        self.owner = owner
        self.prepares = prepares
        self.keeps = keeps
        self.answer: Answer | None = None


class StatementFailed(Exception):
    """A statement of `owner` failed with `error`; nothing more is done until `settle`."""

    def __init__(self, owner: object, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.owner = owner
        self.error = error


class Session:
    """Raises ConnectionLost from every method once the connection is gone.

    `reads_only` says that a refused write is the job's mistake, not a server that became a standby.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._pg = connection.pgconn
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._transformer = Transformer(connection)
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self._sent: deque[Sent] = deque()
        self._prepared: dict[bytes, type[PgRow] | None] = {}
        self._tag = b""
        self.failure: StatementFailed | None = None
        self._last_words: Sent | None = None
        self.lost: ConnectionLost | None = None
        self.owner: object = None
        self.reads_only = False

    def tell(self, statement: Statement, values: Sequence[bytes | None] = ()) -> None:
        """Send without waiting; an error shows itself at a later wait. Raises StatementFailed of before."""
        self._send(statement, values)

    def ask(self, statement: Statement, values: Sequence[bytes | None] = ()) -> Answer:
        """Send and wait for the answer. Raises StatementFailed, also of what was told before.

        Each answer ends with a synchronization: only then the server watches for how long we are silent.
        """
        wanted = self.promise(statement, values)
        self.collect(wanted)
        assert wanted.answer is not None
        return wanted.answer

    def promise(self, statement: Statement, values: Sequence[bytes | None] = ()) -> Sent:
        """Send without waiting; the answer is kept when it comes, at the latest with `settle`."""
        return self._send(statement, values, keeps=True)

    def collect(self, wanted: Sent) -> None:
        """Wait for an answer that was promised. Raises StatementFailed, also of what was told before."""
        self.sync()
        try:
            while self._sent[0] is not wanted:
                self._receive()
            self._receive()
        except psycopg.OperationalError as error:
            raise self._lose(str(error)) from error
        if self.failure is not None:
            raise self.failure

    def sync(self) -> None:
        """Synchronize here, without waiting: after an error the server goes on behind this point."""
        try:
            self._pg.pipeline_sync()
            self._sent.append(Sent(None, None))
            self._flush()
        except psycopg.OperationalError as error:
            raise self._lose(str(error)) from error

    def settle(self) -> StatementFailed | None:
        """Wait for everything that is on its way; the error that was met, which is then over."""
        try:
            while self._sent:
                self._receive()
        except psycopg.OperationalError as error:
            raise self._lose(str(error)) from error
        failure, self.failure = self.failure, None
        return failure

    def surely_before(self, statement: Statement) -> bool:
        """Whether the server said goodbye before it came to `statement`; without a word nobody knows."""
        words = self._last_words
        return words is not None and (words.prepares or words.statement is not statement)

    @property
    def unanswered(self) -> bool:
        """Whether a statement is on its way whose outcome is not known yet."""
        return any(sent.statement is not None for sent in self._sent)

    @property
    def last_tag(self) -> bytes:
        """What the last command that was answered says of itself, e.g. b"COMMIT"."""
        return self._tag

    def close(self) -> None:
        self._pg.finish()

    def _lose(self, words: str) -> ConnectionLost:
        """Remember it, for a job may swallow what is raised here."""
        self.lost = self.lost or ConnectionLost(words.strip())
        return self.lost

    def _send(self, statement: Statement, values: Sequence[bytes | None], *, keeps: bool = False) -> Sent:
        if self.lost is not None:
            raise self.lost
        if self.failure is not None:
            raise self.failure
        pg, sent = self._pg, Sent(statement, self.owner, keeps=keeps)
        try:
            if statement.name in self._prepared:
                pg.send_query_prepared(statement.name, values)
            elif len(self._prepared) < _MAX_PREPARED:
                pg.send_prepare(statement.name, statement.text)
                self._sent.append(Sent(statement, self.owner, prepares=True))
                self._prepared[statement.name] = None
                pg.send_query_prepared(statement.name, values)
            else:
                pg.send_query_params(statement.text, values)
        except psycopg.OperationalError as error:
            raise self._lose(str(error)) from error
        self._sent.append(sent)
        return sent

    def _flush(self) -> None:
        """Hand everything to the system, reading what comes meanwhile, so that neither side is stuck."""
        while self._pg.flush():
            self._wait(select.POLLIN | select.POLLOUT)
            self._pg.consume_input()

    def _wait(self, events: int) -> None:
        self._poll.modify(self._pg.socket, events)
        if not self._poll.poll(ANSWER_SECONDS * 1000):
            raise self._lose(f"no answer for {ANSWER_SECONDS:.0f} s")

    def _result(self) -> pq.abc.PGresult | None:
        pg = self._pg
        while pg.is_busy():
            self._wait(select.POLLIN)
            pg.consume_input()
        return pg.get_result()

    def _receive(self) -> None:
        """The next answer that is due; only one that is to be kept is read."""
        sent = self._sent[0]
        result = self._result()
        if result is None:
            raise self._lose("the server ended the connection")
        self._sent.popleft()
        if sent.statement is None:
            if result.status != _SYNCED:
                raise self._lose("the server ended the connection")
            return
        status = result.status
        if status not in (_ROWS, _DONE):
            self._failed(sent, result)
        elif not sent.prepares:
            self._tag = result.command_status or b""
        if sent.keeps and status in (_ROWS, _DONE):
            sent.answer = self._read(sent.statement, result)
        while self._result() is not None:
            continue

    def _failed(self, sent: Sent, result: pq.abc.PGresult) -> None:
        if sent.prepares and sent.statement is not None:
            self._prepared.pop(sent.statement.name, None)
        if result.status == _ABORTED:
            return
        error = psycopg.errors.error_from_result(result, encoding="utf-8")
        if self._pg.status == pq.ConnStatus.BAD or is_connection_gone(error, reads_only=self.reads_only):
            self._last_words = sent
            raise self._lose(str(error)) from error
        if self.failure is None:
            self.failure = StatementFailed(sent.owner, error)

    def _read(self, statement: Statement, result: pq.abc.PGresult) -> Answer:
        if result.status != _ROWS:
            return Answer([], result.command_tuples or 0)
        shape = self._prepared.get(statement.name)
        if shape is None:
            shape = _shape(result)
            if statement.name in self._prepared:
                self._prepared[statement.name] = shape
        if not result.ntuples:
            return Answer([], 0)
        self._transformer.set_pgresult(result)
        return Answer(self._transformer.load_rows(0, result.ntuples, shape), result.ntuples)


def _shape(result: pq.abc.PGresult) -> type[PgRow]:
    names = [(result.fname(place) or b"").decode() for place in range(result.nfields)]
    places = {name: place for place, name in enumerate(names)}
    return type("Row", (PgRow,), {"__slots__": (), "places": places})


def now() -> float:
    """Seconds of the machine's monotonic clock: for patience with a server, never for what is stored."""
    return time.monotonic()
