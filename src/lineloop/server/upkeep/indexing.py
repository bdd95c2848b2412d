"""Messages become findable, behind the commits that made them.

Follows the change counter of each root conversation, so that a restart, a lost hint and a second server cost
nothing but time: what was indexed is counted, what is beyond the count is looked at again. Speaking does not
wait for it: hints are gathered, terms are made on a reader's thread, and rows are written a few at a time.
"""

from __future__ import annotations

import asyncio

import structlog

from lineloop.kit.clock import Clock
from lineloop.kit.database import Tx
from lineloop.kit.records import record
from lineloop.protocol.errors import LoopError
from lineloop.protocol.messages import MessageStatus
from lineloop.server.commit import Commits
from lineloop.server.decide.searching import searchable_text, terms_of
from lineloop.server.store import messages, searching, viewing
from lineloop.server.store.searching import Document
from lineloop.server.wakeup.bus import Bus, Hint, MessageChanged

GATHER_SECONDS = 0.5
SWEEP_SECONDS = 60.0
SWEPT_ROOTS = 500
PAGE = 50
# So much text is read, or written, in one go.
READ_BYTES = 512 * 1024
WRITTEN_TERMS = 4_000

_log = structlog.get_logger(__name__)


@record
class Look:
    """What was read of a root conversation: findable messages, and the change up to which that is all."""

    documents: list[Document]
    change: int
    is_end: bool


class Indexing:
    """`run` and `sweep` are tasks."""

    def __init__(self, commits: Commits, clock: Clock, bus: Bus) -> None:
        self._commits = commits
        self._clock = clock
        self._due: dict[str, None] = {}
        self._wake = asyncio.Event()
        bus.listen_all(self._hear)

    def _hear(self, hint: Hint) -> None:
        if not isinstance(hint, MessageChanged) or hint.root_id in self._due:
            return
        message = hint.message
        if message is not None and (
            message.status is MessageStatus.STREAMING or message.purpose.carries_envelope
        ):
            return
        self._due[hint.root_id] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            await self._clock.sleep(GATHER_SECONDS)
            self._wake.clear()
            while self._due:
                root_id = next(iter(self._due))
                del self._due[root_id]
                try:
                    await self.index(root_id)
                except LoopError as error:
                    _log.warning("indexing_failed", code=error.code)

    async def sweep(self) -> None:
        """What no hint told of: after a start, from another server, after a failure."""
        while True:
            after = ""
            try:
                while found := await self._behind(after):
                    for root_id in found:
                        await self.index(root_id)
                    after = found[-1]
            except LoopError as error:
                _log.warning("index_sweep_failed", code=error.code)
            await self._clock.sleep(SWEEP_SECONDS)

    async def _behind(self, after: str) -> list[str]:
        return await self._commits.read(lambda tx: searching.behind(tx, after=after, limit=SWEPT_ROOTS))

    async def index(self, root_id: str) -> None:
        """Brings one root conversation up to date."""
        while True:
            look = await self._commits.read(lambda tx: _look(tx, root_id))
            waiting = look.documents
            while waiting:
                some, waiting = _some(waiting)
                await self._commits.write(lambda tx, some=some: _insert(tx, some), "server.index", root_id)
            change = look.change
            await self._commits.write(
                lambda tx, change=change: searching.advance(tx, root_id, change), "server.index", root_id
            )
            if look.is_end:
                return


def _look(tx: Tx, root_id: str) -> Look:
    """The next messages in order of change, as far as they are not too much for one read."""
    change = viewing.change_of(tx, root_id)
    places = viewing.changed(tx, root_id, after=searching.progress(tx, root_id), limit=PAGE)
    documents: list[Document] = []
    read = 0
    for index, place in enumerate(places):
        if index and read + place.weight > READ_BYTES:
            return Look(documents, places[index - 1].change, is_end=False)
        read += place.weight
        document = _document(tx, place.id)
        if document is not None:
            documents.append(document)
    if len(places) == PAGE:
        return Look(documents, places[-1].change, is_end=False)
    return Look(documents, max(change, places[-1].change) if places else change, is_end=True)


def _document(tx: Tx, message_id: str) -> Document | None:
    """None for what is not found: traffic between programs, what is still being said, what has no words."""
    head = messages.head(tx, message_id)
    if head is None or head.purpose.carries_envelope or head.status is MessageStatus.STREAMING:
        return None
    message = messages.get(tx, message_id)
    if message is None:
        return None
    terms = terms_of(searchable_text(message.content))
    return Document(message.id, message.conversation_id, message.root_id, terms) if terms else None


def _some(waiting: list[Document]) -> tuple[list[Document], list[Document]]:
    """The next ones for one short job, and the rest."""
    terms = 0
    for index, document in enumerate(waiting):
        terms += len(document.terms)
        if index and terms > WRITTEN_TERMS:
            return waiting[:index], waiting[index:]
    return waiting, []


def _insert(tx: Tx, documents: list[Document]) -> None:
    for document in documents:
        searching.insert(tx, document)
