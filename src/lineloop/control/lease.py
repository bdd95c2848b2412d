"""Leases: at most one holder at a time, and proof of it in every write.

Time decides who may take a lease; the fencing token decides whose writes count. A holder that was asleep
past its lease finds a larger token in the table and is refused, whatever its own clock says.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from lineloop.kit.clock import Clock
from lineloop.kit.database import Database, DatabaseError, Tx
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import Conflict

_log = structlog.get_logger(__name__)

LEASES_DDL = """
    CREATE TABLE leases (
        resource TEXT NOT NULL PRIMARY KEY,
        holder TEXT NOT NULL,
        token BIGINT NOT NULL,
        expires_at BIGINT NOT NULL
    )
"""


def take_lease(tx: Tx, resource: str, holder: str, *, now_ms: int, ttl_ms: int) -> int | None:
    """The fencing token when the lease was free, expired or the holder's own; None when another has it.

    The token grows with every change of hands and never repeats, because the row outlives its holders.
    """
    tx.lock(f"~lease/{resource}")
    row = tx.one(
        "SELECT holder, token, expires_at FROM leases WHERE resource = :resource", {"resource": resource}
    )
    values = {"resource": resource, "holder": holder, "expires_at": now_ms + ttl_ms}
    if row is None:
        insert = "INSERT INTO leases(resource, holder, token, expires_at) "
        tx.run(f"{insert} VALUES (:resource, :holder, 1, :expires_at)", values)
        return 1
    if row["holder"] != holder and row["expires_at"] > now_ms:
        return None
    token: int = row["token"] + (row["holder"] != holder or row["expires_at"] <= now_ms)
    tx.run(
        "UPDATE leases SET holder = :holder, token = :token, expires_at = :expires_at "
        "WHERE resource = :resource",
        {**values, "token": token},
    )
    return token


def renew_lease(tx: Tx, resource: str, token: int, *, now_ms: int, ttl_ms: int) -> bool:
    """Prolong the lease that has this token; False when it has changed hands."""
    return bool(
        tx.run(
            "UPDATE leases SET expires_at = :expires_at "
            "WHERE resource = :resource AND token = :token AND expires_at > 0",
            {"resource": resource, "token": token, "expires_at": now_ms + ttl_ms},
        )
    )


def release_lease(tx: Tx, resource: str, token: int) -> None:
    """Let go, so that the next one need not wait."""
    tx.run(
        "UPDATE leases SET expires_at = 0 WHERE resource = :resource AND token = :token",
        {"resource": resource, "token": token},
    )


def check_lease(tx: Tx, resource: str, token: int) -> None:
    """Raises Conflict (`lease_lost`) unless the lease still has this token. Call it in the writing
    transaction.
    """
    row = tx.one(
        "SELECT 1 FROM leases WHERE resource = :resource AND token = :token AND expires_at > 0",
        {"resource": resource, "token": token},
    )
    if row is None:
        raise Conflict(f"the lease on {resource} has changed hands", code=ErrorCode.LEASE_LOST)


class Lease:
    """A named lease in a database whose schema has `LEASES_DDL`, kept by `keep`.

    `token` is the fencing token while held, else None. The holder itself gives up a little before others
    may take over, measured on its monotonic clock, so that a jump of the wall clock cannot make it
    overstay.
    """

    def __init__(
        self, db: Database, resource: str, holder: str, clock: Clock, *, ttl_seconds: float = 15.0
    ) -> None:
        self.resource = resource
        self.token: int | None = None
        self._db = db
        self._holder = holder
        self._clock = clock
        self._ttl_seconds = ttl_seconds
        self._kept_at = 0.0

    async def acquire(self) -> bool:
        """Try once. Raises DatabaseError."""
        asked_at = self._clock.monotonic()
        now_ms, ttl_ms = self._clock.now_ms(), round(self._ttl_seconds * 1000)
        self.token = await self._db.write(
            lambda tx: take_lease(tx, self.resource, self._holder, now_ms=now_ms, ttl_ms=ttl_ms),
            label="control.lease",
        )
        self._kept_at = asked_at
        return self.token is not None

    async def renew(self) -> bool:
        """Prolong. False, and no longer held, when another has taken it. Raises DatabaseError."""
        token = self.token
        if token is None:
            return False
        asked_at = self._clock.monotonic()
        now_ms, ttl_ms = self._clock.now_ms(), round(self._ttl_seconds * 1000)
        if await self._db.write(
            lambda tx: renew_lease(tx, self.resource, token, now_ms=now_ms, ttl_ms=ttl_ms),
            label="control.lease",
        ):
            self._kept_at = asked_at
            return True
        self.token = None
        return False

    async def release(self) -> None:
        """Let go. Raises DatabaseError."""
        token, self.token = self.token, None
        if token is not None:
            await self._db.write(lambda tx: release_lease(tx, self.resource, token))

    def check_in(self, tx: Tx) -> None:
        """As `check_lease`, with the token that is held. Raises Conflict (`lease_lost`)."""
        if self.token is None:
            raise Conflict(f"the lease on {self.resource} is not held", code=ErrorCode.LEASE_LOST)
        check_lease(tx, self.resource, self.token)

    async def keep(self, on_gain: Callable[[int], None], on_loss: Callable[[], None]) -> None:
        """Take the lease when it is free, renew it at a third of its length, tell of every change; until
        cancelled.
        """
        third = self._ttl_seconds / 3
        try:
            while True:
                held = self.token is not None
                try:
                    now_held = await (self.renew() if held else self.acquire())
                except DatabaseError as error:
                    _log.warning("lease_unreachable", resource=self.resource, error=repr(error))
                    now_held = held and self._clock.monotonic() - self._kept_at < 2 * third
                    if not now_held:
                        self.token = None
                if now_held and not held and self.token is not None:
                    on_gain(self.token)
                elif held and not now_held:
                    on_loss()
                await self._clock.sleep(third)
        finally:
            if self.token is not None:
                on_loss()
