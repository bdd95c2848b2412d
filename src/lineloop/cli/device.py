"""`lineloop device`: the device Runtime alone, joined to a server. Also the room where `up` makes its device.

Decides which device a data directory belongs to, and that commands reach the registry of the running one. The
Runtime decides the rest.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from lineloop.cli.apps import carry_out
from lineloop.cli.control import ControlDoor
from lineloop.cli.data_files import DEVICE_DATABASE, refuse_emptied
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.keeping import kept_of
from lineloop.cli.lifetime import Stop, live
from lineloop.cli.logs import set_up_quiet_logs
from lineloop.cli.models import LocalModels
from lineloop.cli.running import Ready
from lineloop.cli.surroundings import Surroundings
from lineloop.cli.web import LINK_VERB, WEB, WebDisplay, announce, check_host
from lineloop.client.transport import LinkConnection, Params, Response, ServerSentEvent, Transport
from lineloop.device.apps import AppRegistry
from lineloop.device.runtime import Runtime
from lineloop.device.settings import DeviceSettings, Place, Retention
from lineloop.kit.datadir import DataDir
from lineloop.kit.file_identity import FileIdentity
from lineloop.kit.records import record
from lineloop.kit.tasks import Tasks
from lineloop.protocol.actors import RUNTIME, Actor
from lineloop.protocol.error_codes import ErrorCode
from lineloop.protocol.errors import ConnectionLost, LoopError
from lineloop.settings import Settings

FOLDER = "device"
PERSON = Actor("user", "local")


@record
class DeviceParts:
    """What a Runtime is made of here. `person` carries the person's credential, None when there is none;
    `display` is the browser's door, None for a device that shows nothing. `models` is None where the models
    are another machine's affair. `place` is what people are told of where it runs.
    """

    around: Surroundings
    device: Actor
    transport: Transport
    person: Transport | None = None
    display: WebDisplay | None = None
    models: LocalModels | None = None
    place: Place = Place()


@asynccontextmanager
async def running_device(parts: DeviceParts, stop: Stop) -> AsyncGenerator[Runtime]:
    """A started Runtime and its door for commands; entered when it is online, or when the stop came first."""
    around = parts.around
    database = around.data_dir / DEVICE_DATABASE
    with DataDir(around.data_dir / FOLDER) as folder, FileIdentity(database) as identity:
        refuse_emptied(database, around.data_dir)
        runtime = _made(parts, folder.path)
        runtime.on_fatal = stop.because_of
        runtime.models = parts.models
        try:
            await runtime.start()
            identity.hold()
            async with AsyncExitStack() as stack:
                if parts.display is not None:
                    await stack.enter_async_context(parts.display.serving())
                door = ControlDoor(folder.path, around.ids, partial(_command, runtime, parts.display))
                await stack.enter_async_context(door)
                await _first(runtime.wait_ready(), stop.wait())
                yield runtime
        finally:
            await runtime.close()


async def _command(
    runtime: Runtime, display: WebDisplay | None, verb: str, arguments: dict[str, Any]
) -> dict[str, Any]:
    """What comes through the door for commands. Raises LoopError."""
    if verb != LINK_VERB:
        return await carry_out(runtime.registry, verb, arguments)
    if display is None:
        raise LoopError("this device runs without a shell (--host headless)", code=ErrorCode.UNSUPPORTED)
    return {"link": await display.host.link()}


def _made(parts: DeviceParts, folder: Path) -> Runtime:
    around = parts.around
    return Runtime(
        DeviceSettings(
            data_dir=folder,
            device_key=parts.device.key,
            person=PERSON,
            retention=Retention(**kept_of(around.keep).device),
            place=parts.place,
        ),
        parts.transport,
        clock=around.clock,
        ids=around.ids,
        faults=around.faults,
        host=parts.display.host if parts.display is not None else None,
        person_transport=parts.person,
    )


async def _first(*waits: Coroutine[Any, Any, None]) -> None:
    """Returns when one of them has."""
    async with Tasks("start") as tasks:
        started = {tasks.spawn(wait, name=wait.__name__) for wait in waits}
        done, _ = await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()


@record
class DeviceOptions:
    host: str
    shell_port: int | None
    open_browser: bool
    ready_file: Path | None


def run_device(settings: Settings, options: DeviceOptions) -> int:
    """Until a signal. Raises CommandFailed when it cannot start."""
    from lineloop.client.http import HttpTransport

    check_host(options.host)
    server, token = settings.server, settings.token
    if not server or not token:
        raise CommandFailed("a server and a token are needed: --server URL --token T", Exit.USAGE)

    @asynccontextmanager
    async def part(stop: Stop) -> AsyncGenerator[Ready]:
        around = Surroundings.of(settings)
        transport = HttpTransport(server, token)
        device = await _device_of(around, transport)
        web = WebDisplay.bound(around, options.shell_port) if options.host == WEB else None
        async with running_device(
            DeviceParts(around, device, transport, display=web, place=Place(str(around.data_dir), server)),
            stop,
        ):
            if web is not None:
                await announce(web, settings, open_browser=options.open_browser)
            yield Ready(
                server_url=server,
                shell_url=web.url if web is not None else None,
                shell_code=await web.host.new_code() if web is not None else None,
                admin_token=None,
                device_key=device.key,
                pid=os.getpid(),
            )

    return live(settings, part, announce_in=settings.data_dir / FOLDER, ready_file=options.ready_file)


async def _device_of(around: Surroundings, transport: Transport) -> Actor:
    """The device that the token names. A data directory serves one device for good; later starts work
    offline.

    Raises CommandFailed for a token of something else, LoopError when the server refuses it.
    """
    known = around.credentials.known_device_key
    try:
        connection = await transport.open_link()
        hello = await connection.receive()
        await connection.close()
    except ConnectionLost as error:
        if known is None:
            raise CommandFailed(
                f"the first start needs the server: {error.message}", Exit.TEMPORARY
            ) from error
        return Actor(RUNTIME, known)
    named = Actor.from_wire(hello["hello"]["actor"])
    if named.kind != RUNTIME:
        raise CommandFailed(f"the token is for {named}; a device needs one for runtime/KEY", Exit.USAGE)
    if known is None:
        around.credentials.keep_device_key(named.key)
    elif known != named.key:
        hint = "Use the token of that device, or another --data-dir."
        raise CommandFailed(f"this data directory is device {known}'s, the token is {named.key}'s", hint=hint)
    return named


@asynccontextmanager
async def closed_registry(settings: Settings) -> AsyncGenerator[AppRegistry]:
    """The registry of a device that does not run now, with all that follows from a change. Raises
    CommandFailed.
    """
    set_up_quiet_logs(settings.log_format)
    around = Surroundings.of(settings)
    device = Actor(RUNTIME, around.credentials.device_key)
    database = around.data_dir / DEVICE_DATABASE
    with DataDir(around.data_dir / FOLDER) as folder, FileIdentity(database) as identity:
        refuse_emptied(database, around.data_dir)
        runtime = _made(DeviceParts(around, device, NoServer()), folder.path)
        try:
            await runtime.start()
            identity.hold()
            yield runtime.registry
        finally:
            await runtime.close()


class NoServer:
    """A transport to nowhere: everything waits in the outbox for the next start."""

    def _refuse(self) -> NoReturn:
        raise ConnectionLost("this command does not talk to a server")

    async def request(
        self,
        method: str,  # noqa: ARG002
        path: str,  # noqa: ARG002
        *,
        json: Any = None,  # noqa: ARG002
        params: Params | None = None,  # noqa: ARG002
        timeout_seconds: float = 30.0,  # noqa: ARG002
    ) -> Response:
        self._refuse()

    async def upload(
        self,
        path: str,  # noqa: ARG002
        body: AsyncIterator[bytes],  # noqa: ARG002
        *,
        media_type: str,  # noqa: ARG002
        params: Params | None = None,  # noqa: ARG002
    ) -> Response:
        self._refuse()

    def parts(
        self,
        path: str,  # noqa: ARG002
        *,
        params: Params | None = None,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self._refuse()

    def events(
        self,
        path: str,  # noqa: ARG002
        *,
        params: Params | None = None,  # noqa: ARG002
        last_event_id: str | None = None,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[AsyncIterator[ServerSentEvent]]:
        self._refuse()

    def lines(
        self,
        path: str,  # noqa: ARG002
        *,
        params: Params | None = None,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        self._refuse()

    async def open_link(self) -> LinkConnection:
        self._refuse()

    async def close(self) -> None:
        """There is nothing to give back."""
