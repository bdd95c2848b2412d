"""What a search asks for, as rules and statements hand it to each other."""

from __future__ import annotations

from lineloop.kit.records import record


@record
class Phrase:
    """Terms that follow each other. With `prefix` the last one may go on."""

    terms: tuple[str, ...]
    prefix: bool = False
