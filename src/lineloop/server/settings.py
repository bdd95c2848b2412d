"""What a server is told when it is made: values only. Files and environment are the caller's to read."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from lineloop.kit.records import record
from lineloop.server.commit.context import CommitLimits

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


@record
class Retention:
    """For how many days things are kept that nobody needs any more; None: for ever.

    `runs`: what an ended Run was asked and what came of it; that there was one under its key stays for ever.
    `ledger`: the steps of ended Runs.
    """

    messages: float | None = None
    envelopes: float | None = None
    runs: float | None = None
    ledger: float | None = None

    @property
    def is_on(self) -> bool:
        return any(days is not None for days in (self.messages, self.envelopes, self.runs, self.ledger))


@record
class Rates:
    """How many requests a second are taken in the long run; None: as many as come. Of each server.

    `token`: with one stored token; `person`: of one person with a cookie or a trusted header; `stranger`:
    without a valid credential, from one address. An item of a link's frame counts as a request. What was not
    used is saved up for `burst_seconds`. The administrator and the parts of this process have no limit.
    """

    token: float | None = None
    person: float | None = 100.0
    stranger: float | None = 50.0
    burst_seconds: float = 20.0


@record
class ServerSettings:
    """One server on its database: the path of a SQLite file, or a postgresql:// URL that several may share.

    `hosts` are the names (without port) under which it may be addressed; `origins` the exact origins, besides
    its own, whose pages may call it. Without `admin_token` a fresh one is made at each start. `open_sessions`
    lets GET /v1/session make people known by a cookie; `trusted_user_header` names the header in which the
    host's own proxy tells who the person is (only behind such a proxy).

    A request's body may pause for `body_idle_seconds` and take `body_seconds` in all. A link whose peer takes
    nothing for `stalled_seconds` ends.

    `blobs` is the directory of attachments; without it they lie beside the database file. One attachment has
    at most `blob_bytes`, may take `blob_seconds` to arrive, and waits `blob_grace_seconds` for a message.

    `redis_url` names a Redis over which several servers on one database wake each other.
    """

    database: Path | str
    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    origins: tuple[str, ...] = ()
    admin_token: str | None = None
    open_sessions: bool = False
    secure_cookies: bool = False
    trusted_user_header: str | None = None
    body_bytes: int = 1024 * 1024
    body_idle_seconds: float = 30.0
    body_seconds: float = 120.0
    blobs: Path | None = None
    blob_bytes: int = 25 * 1024 * 1024
    blob_seconds: float = 900.0
    blob_grace_seconds: float = 24 * 3600.0
    frame_bytes: int = 4 * 1024 * 1024
    heartbeat_seconds: float = 15.0
    sweep_seconds: float = 1.0
    notify_seconds: float = 0.05
    drain_retry_ms: int = 500
    run_slots: int = 50
    redis_url: str | None = None
    retention: Retention = field(default_factory=Retention)
    rates: Rates = field(default_factory=Rates)
    limits: CommitLimits = field(default_factory=CommitLimits)
