"""`lineloop up`: server, assistant and device Runtime in one process. The composition root of the embedded
system.

Decides which parts there are, in which order they start and stop, and how they reach each other: the
assistant and the device use the same verbs and the same link as programs elsewhere, only without a socket.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from lineloop.cli.failures import CommandFailed, Exit
from lineloop.cli.lifetime import Stop, live
from lineloop.cli.running import Ready, find_running
from lineloop.cli.web import HEADLESS, check_host, link_of, show_in_browser
from lineloop.kit.records import record
from lineloop.protocol.errors import LoopError
from lineloop.settings import Settings, child_environment

LOG = "lineloop.log"
START_SECONDS = 60.0
STOP_SECONDS = 12.0


@record
class UpOptions:
    data_dir: Path
    server_port: int | None
    shell_port: int | None
    host: str | None
    open_browser: bool
    ready_file: Path | None
    stand_in: bool = False


def run_up(settings: Settings, options: UpOptions) -> int:
    """Until a signal. Raises CommandFailed when it cannot start."""
    from lineloop.cli.models import LocalModels, check_model

    check_host(options.host)
    check_model(settings)

    @asynccontextmanager
    async def part(stop: Stop) -> AsyncGenerator[Ready]:
        from lineloop.cli.device import PERSON, DeviceParts, running_device
        from lineloop.cli.keeping import kept_of
        from lineloop.cli.listening import bind, served, url_of
        from lineloop.cli.serve import DRAIN_SECONDS, started_server
        from lineloop.cli.surroundings import Surroundings
        from lineloop.cli.web import announce, open_display
        from lineloop.client.in_process import InProcessTransport
        from lineloop.client.loop import Loop
        from lineloop.device.settings import Place
        from lineloop.operators.assistant import assistant_operator, description_of
        from lineloop.operators.worker import OperatorWorker
        from lineloop.protocol.actors import RUNTIME, Actor

        around = Surroundings.of(settings)
        models = LocalModels(settings, around.clock)
        listener = bind(options.server_port, settings.data_dir, "server")
        display = open_display(around, options.host, options.shell_port, stand_in=options.stand_in)

        def inside(actor: Actor) -> InProcessTransport:
            return InProcessTransport(server.asgi, server.open_link, server.local_token(actor))

        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(started_server(around, models, stop))
            await stack.enter_async_context(served(server.asgi, listener))
            stack.push_async_callback(server.drain, DRAIN_SECONDS)
            helper = assistant_operator(target=lambda: models.target)
            loop = Loop(inside(helper.actor), clock=around.clock, faults=around.faults)
            await stack.enter_async_context(loop)
            worker = await stack.enter_async_context(OperatorWorker(helper, loop))
            models.on_changed(lambda: worker.describe(description_of(models.target)))
            device = Actor(RUNTIME, around.credentials.device_key)
            kept = kept_of(around.keep).server.get("messages") or 0.0
            place = Place(str(around.data_dir), url_of(listener), kept)
            parts = DeviceParts(around, device, inside(device), inside(PERSON), display, models, place)
            await stack.enter_async_context(running_device(parts, stop))
            stack.callback(server.leave)  # first of all, while the other parts still stop
            if display is not None:
                await announce(display, settings, open_browser=options.open_browser)
            yield Ready(
                server_url=url_of(listener),
                shell_url=display.url if display is not None else None,
                shell_code=await display.host.new_code() if display is not None else None,
                admin_token=around.credentials.admin_token,
                device_key=device.key,
                pid=os.getpid(),
            )

    return live(settings, part, announce_in=settings.data_dir, ready_file=options.ready_file)


def up_with_chat(settings: Settings, options: UpOptions) -> int:
    """Starts the system as a process of its own, talks to it in this terminal, and stops it on leaving.

    A system that already runs on the data directory is talked to and left running; it may end before.
    """
    import asyncio

    from lineloop.cli.beside import chat_beside
    from lineloop.cli.chat.command import ChatOptions, run_chat

    check_host(options.host)
    running = find_running(settings.data_dir)
    started = None if running else _start(settings, options)
    if options.host != HEADLESS:
        asyncio.run(_tell_link(settings, options))
    chat = run_chat(settings, ChatOptions(ends_system=started is not None))
    try:
        asyncio.run(chat_beside(settings.data_dir, running.pid, chat) if running else chat)
    finally:
        if started:
            _end(started)
    return Exit.DONE


async def _tell_link(settings: Settings, options: UpOptions) -> None:
    """The same system in a browser; a system that was found running may have no shell."""
    try:
        link = await link_of(settings.data_dir)
    except (CommandFailed, LoopError):
        return
    print(f"in a browser: {link}", file=sys.stderr)
    if options.open_browser:
        show_in_browser(settings, link)


def _start(settings: Settings, options: UpOptions) -> subprocess.Popen[bytes]:
    """The system in a session of its own, so that Ctrl-C reaches the chat only. Raises CommandFailed."""
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = settings.data_dir / LOG
    command = [sys.executable, "-m", "lineloop.cli", "up", "--data-dir", str(settings.data_dir)]
    command += ["--no-open", "--stand-in", *(["--host", options.host] if options.host else [])]
    given = {
        "--server-port": options.server_port,
        "--shell-port": options.shell_port,
        "--ready-file": options.ready_file,
    }
    for name, value in given.items():
        command += [name, str(value)] if value is not None else []
    print(f"starting Lineloop on {settings.data_dir} (log: {log})", file=sys.stderr)
    with log.open("ab") as sink:
        begun_at = sink.tell()
        process = subprocess.Popen(  # noqa: S603 (our own program)
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            env=child_environment(),
        )
    if _wait_until_ready(settings.data_dir, process):
        return process
    _end(process)
    said = log.read_bytes()[begun_at:].decode(errors="replace").strip()
    raise CommandFailed(f"Lineloop did not start:\n{said[-2000:]}", Exit(_known(process.returncode)))


def _wait_until_ready(data_dir: Path, process: subprocess.Popen[bytes]) -> bool:
    for _ in range(int(START_SECONDS / 0.05)):
        ready = find_running(data_dir)
        if ready and ready.pid == process.pid:
            return True
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        return False
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _known(code: int) -> int:
    return code if code in set(Exit) - {Exit.DONE} else Exit.FAILED
