"""Which version of the link two sides speak with each other (spec/protocol.md §13).

A client names the newest version it speaks and, when that is another, the oldest; the server answers with the
newest that both speak. Decides nothing about what a version contains.
"""

from __future__ import annotations

from lineloop.kit.records import record
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import LoopError


@record
class Versions:
    """What one side speaks: every version from `oldest` to `newest`."""

    oldest: int
    newest: int

    def agree(self, other: Versions) -> int:
        """The newest version that both speak. Raises LoopError protocol_version_unsupported, which names what
        this side speaks.
        """
        agreed = min(self.newest, other.newest)
        if agreed < max(self.oldest, other.oldest):
            raise LoopError(
                f"this side speaks link protocol {self}, the other {other}",
                code=ErrorCode.PROTOCOL_VERSION_UNSUPPORTED,
                detail={"protocol": self.newest, "protocol_min": self.oldest},
            )
        return agreed

    def hello(self) -> dict[str, int]:
        """The fields of a client's hello."""
        one = {"protocol": self.newest}
        return one if self.oldest == self.newest else {**one, "protocol_min": self.oldest}

    def __str__(self) -> str:
        return str(self.newest) if self.oldest == self.newest else f"{self.oldest} to {self.newest}"


SPOKEN = Versions(1, 1)
"""What this program speaks, as a client and as a server."""
