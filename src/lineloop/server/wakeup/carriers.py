"""Which carrier the hints between replicas take. The libraries are imported here and only when asked for."""

from __future__ import annotations

from lineloop.server.wakeup.relay import Carrier


def redis_carrier(url: str, scope: str) -> Carrier:
    """Raises ValueError for an unusable address, ImportError without the extra `redis`."""
    from lineloop.server.wakeup.relay_redis import RedisCarrier

    return RedisCarrier(url, scope)


def postgres_carrier(url: str, scope: str) -> Carrier:
    """Raises UnusableServer for an unusable address, ImportError without the extra `postgres`."""
    from lineloop.server.wakeup.relay_postgres import PostgresCarrier

    return PostgresCarrier(url, scope)
