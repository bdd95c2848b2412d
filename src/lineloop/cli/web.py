"""The browser's door to a device: the two listeners of the web host, the link that opens the shell.

Decides ports, that a shell that was not built is said plainly, and that a link's code stays out of logs and
of the arguments of programs: a browser is handed a private file that leads there.
"""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING

import lineloop
from lineloop.cli.control import knock
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.kit.datadir import write_atomic
from lineloop.protocol.errors import ConnectionLost
from lineloop.settings import Settings

if TYPE_CHECKING:
    from lineloop.cli.surroundings import Surroundings
    from lineloop.device.host.web.host import WebHost

HEADLESS, WEB = "headless", "web"
OPEN_PAGE = "open.html"
LINK_VERB = "shell.link"
BUILD_HINT = "build them with `make web-build` (needs Node with npm)"


@dataclass(slots=True)
class WebDisplay:
    """A web host and its sockets, bound but not yet served."""

    host: WebHost
    shell: socket
    content: socket

    @classmethod
    def bound(cls, around: Surroundings, shell_port: int | None, *, stand_in: bool = False) -> WebDisplay:
        """Raises CommandFailed: the shell has not been built (1), the port is taken (75)."""
        from lineloop.cli.listening import bind, port_of
        from lineloop.device.host.web.host import WebHost
        from lineloop.device.host.web.shell_app import ShellMissing, load_static

        try:
            static = load_static()
        except ShellMissing as error:
            hint = f"{BUILD_HINT}, or start with --host headless."
            raise CommandFailed("the shell's pages have not been built", hint=hint) from error
        shell = bind(shell_port, around.data_dir, "shell")
        content = bind(None, around.data_dir, "content")
        host = WebHost(
            around.ids,
            around.clock,
            static,
            shell_port=port_of(shell),
            content_port=port_of(content),
            stand_in=stand_in,
        )
        return cls(host, shell, content)

    @property
    def url(self) -> str:
        return f"{self.host.shell_origin}/"

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Answers browsers inside the block; pages are sent away before the listeners end."""
        from lineloop.cli.listening import LOCAL_PAGES, served

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(served(self.host.content, self.content, LOCAL_PAGES))
            await stack.enter_async_context(served(self.host.shell, self.shell, LOCAL_PAGES))
            stack.push_async_callback(self.host.stop)
            yield


def check_host(host: str | None) -> None:
    """Raises CommandFailed (2) for a host that there is not; None is whatever there is."""
    if host not in (None, HEADLESS, WEB):
        raise CommandFailed(f"no host {host!r}; there are headless and web", Exit.USAGE)


def is_built() -> bool:
    """Whether there are pages to serve."""
    return (Path(str(lineloop.__file__)).parent / "device/host/web/static/index.html").is_file()


def open_display(
    around: Surroundings, host: str | None, shell_port: int | None, *, stand_in: bool
) -> WebDisplay | None:
    """The browser's door, None for headless. Nobody having asked for either, it is there when it was built,
    and the terminal stands in while no page is visible.

    Raises CommandFailed.
    """
    if host is None and not is_built():
        print(f"no browser pages: they have not been built; {BUILD_HINT}", file=sys.stderr)
        return None
    if host == HEADLESS:
        return None
    return WebDisplay.bound(around, shell_port, stand_in=stand_in or host is None)


async def announce(display: WebDisplay, settings: Settings, *, open_browser: bool) -> None:
    """Tells a person at a terminal where the shell is; logs and pipes do not get to see the code."""
    if not sys.stdout.isatty():
        return
    link = await display.host.link()
    print(f"Lineloop: {link}", flush=True)
    if open_browser:
        show_in_browser(settings, link)


def show_in_browser(settings: Settings, link: str) -> bool:
    """Opens a link, if this machine has a display. The browser gets a file that only this person can read."""
    if not settings.has_display:
        return False
    page = settings.data_dir / OPEN_PAGE
    write_atomic(page, _leads_to(link).encode(), 0o600)
    return webbrowser.open(page.as_uri())


def _leads_to(link: str) -> str:
    address = escape(link, quote=True)
    return (
        f'<!doctype html><meta charset="utf-8"><title>Lineloop</title>'
        f'<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={address}">'
        f'<a href="{address}">Lineloop</a>'
    )


async def link_of(data_dir: Path) -> str:
    """A fresh link to the shell of the device that runs on this data directory.

    Raises CommandFailed (3) when none runs, LoopError unsupported when it has no shell.
    """
    try:
        answer = await knock(data_dir / "device", LINK_VERB, {})
    except ConnectionLost as error:
        hint = "Start it with `lineloop up`."
        raise CommandFailed("no device runs on this data directory", Exit.NOT_FOUND, hint=hint) from error
    return str(answer["link"])


async def open_shell(settings: Settings, *, open_browser: bool) -> int:
    """`lineloop open`. Raises CommandFailed, LoopError."""
    link = await link_of(settings.data_dir)
    print(link, flush=True)
    if open_browser:
        show_in_browser(settings, link)
    return Exit.DONE
