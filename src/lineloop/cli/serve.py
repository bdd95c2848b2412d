"""`lineloop serve`: the conversation server alone. Also the room where any command makes a server in its
process.

Decides the database, the lock and the administrator's token; the server decides the rest.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from lineloop.cli.admission import admission_of
from lineloop.cli.data_files import SERVER_DATABASE, directory_of, refuse_emptied, remember_database
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.keeping import kept_of
from lineloop.cli.lifetime import Stop, live
from lineloop.cli.models import LocalModels, check_model
from lineloop.cli.running import Ready
from lineloop.cli.surroundings import Surroundings
from lineloop.client.in_process import InProcessTransport
from lineloop.kit.datadir import DataDir, FileLock
from lineloop.kit.engines import DatabaseUrl, Place, is_postgres, shown
from lineloop.kit.file_identity import FileIdentity
from lineloop.kit.storage_errors import DatabaseUnavailable
from lineloop.server.app import Server
from lineloop.server.settings import Retention, ServerSettings
from lineloop.settings import Settings

SQLITE = "sqlite:///"
DRAIN_SECONDS = 2.0


@asynccontextmanager
async def started_server(
    around: Surroundings,
    models: LocalModels,
    stop: Stop,
    database: Place | None = None,
    *,
    redis: str | None = None,
) -> AsyncGenerator[Server]:
    """The server on its data, started but not listening. Raises what a failed start raises.

    All are locked: the data directory's part of the server, and a file by its name and by itself. A
    database server is shared.
    """
    async with AsyncExitStack() as stack:
        own = around.data_dir / SERVER_DATABASE
        stack.enter_context(DataDir(own.parent))
        database = database or own
        identity: FileIdentity | None = None
        if isinstance(database, Path):
            stack.enter_context(FileLock(database))
            identity = stack.enter_context(FileIdentity(database))
            refuse_emptied(database, around.data_dir)
        settings = ServerSettings(
            database=database,
            admin_token=around.credentials.admin_token,
            redis_url=redis,
            blobs=around.blobs,
            retention=Retention(**kept_of(around.keep).server),
            **admission_of(around.admission),
        )
        server = Server(
            settings,
            clock=None if is_postgres(str(database)) else around.clock,
            ids=around.ids,
            faults=around.faults,
            on_fatal=stop.because_of,
            adapters=models.adapters(),
        )
        await server.start()
        if identity is not None:
            identity.hold()
        stack.push_async_callback(server.close)
        yield server


def admin_of(server: Server, around: Surroundings) -> InProcessTransport:
    """The administrator's way into a server of this process."""
    return InProcessTransport(server.asgi, server.open_link, around.credentials.admin_token)


def run_serve(
    settings: Settings,
    *,
    database: str | None,
    redis: str | None,
    port: int | None,
    ready_file: Path | None,
    beside: bool,
) -> int:
    """Until a signal. With `beside`, a database of its own has the server's other files beside it.

    Raises CommandFailed when it cannot start.
    """
    check_model(settings)
    redis = redis_url(redis or settings.redis)
    place = database_place(database or settings.database)
    if isinstance(place, Path) and beside:
        settings = replace(settings, data_dir=directory_of(place))

    @asynccontextmanager
    async def part(stop: Stop) -> AsyncGenerator[Ready]:
        from lineloop.cli.listening import bind, served, url_of

        around = Surroundings.of(settings)
        listener = bind(port, settings.data_dir, "server")
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                started_server(around, LocalModels(settings, around.clock), stop, place, redis=redis)
            )
            remember_database(settings.data_dir, place)
            await stack.enter_async_context(served(server.asgi, listener))
            stack.push_async_callback(server.drain, DRAIN_SECONDS)
            yield Ready(
                server_url=url_of(listener),
                shell_url=None,
                shell_code=None,
                admin_token=around.credentials.admin_token,
                device_key=None,
                pid=os.getpid(),
            )

    return live(settings, part, announce_in=settings.data_dir, ready_file=ready_file)


def database_place(url: str | None) -> Place | None:
    """The file of a path or SQLite URL, or the URL of a PostgreSQL; None for the data directory's own.

    Raises CommandFailed (2) for others.
    """
    if url is None:
        return None
    if is_postgres(url):
        try:
            shown(url)  # also finds out that the driver is there
        except DatabaseUnavailable as error:
            raise CommandFailed(str(error), Exit.USAGE) from None
        return DatabaseUrl(url)
    name = url.removeprefix(SQLITE)
    if not name or "://" in name:
        # Without the text itself: it may hold a password.
        raise CommandFailed("--database takes FILE, sqlite:///FILE or postgresql://…", Exit.USAGE)
    return Path(name).expanduser().absolute()


def redis_url(url: str | None) -> str | None:
    """The address of a Redis, looked at but not called. Raises CommandFailed (2) for one that is none."""
    if url is None:
        return None
    try:
        from redis.asyncio import Redis

        Redis.from_url(url)
    except ImportError:
        raise CommandFailed(
            "the client of Redis is missing: pip install 'lineloop[redis]'", Exit.USAGE
        ) from None
    except ValueError:
        # Without the address itself: it may hold a password.
        raise CommandFailed("--redis takes redis://, rediss:// or unix://", Exit.USAGE) from None
    return url
