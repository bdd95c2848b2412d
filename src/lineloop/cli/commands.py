"""The words and options of the command line. Nothing here does the work; each command imports its module.

Options keep the names of docs/reference/command-line.md. `--data-dir`, `--server` and `--token` fall back
to the environment (lineloop.settings).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lineloop.cli import quick_start
from lineloop.cli.failures import CommandFailed, Exit, failure_of, tell
from lineloop.protocol.actors import OPERATOR, Actor
from lineloop.protocol.errors import LoopError
from lineloop.settings import Settings, default_data_dir


def _path(text: str) -> Path:
    # An empty path would mean the current directory, which nobody means who leaves a variable empty.
    if not text.strip():
        raise typer.BadParameter("the path is empty")
    return Path(text)


DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where this system keeps its data.", metavar="DIR", parser=_path),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Server = Annotated[str | None, typer.Option("--server", help="Address of a running server.")]
Token = Annotated[str | None, typer.Option("--token", help="Credential for that server.")]
AdminToken = Annotated[str | None, typer.Option("--admin-token", help="Credential with every right.")]
ReadyFile = Annotated[
    Path | None,
    typer.Option(
        "--ready-file",
        help="Written once every part answers, removed on exit.",
        metavar="FILE",
        parser=_path,
    ),
]
Host = Annotated[str | None, typer.Option(help="Who shows app surfaces: web, or headless.")]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")]
Port = Annotated[int | None, typer.Option(help="0 takes any free port.", min=0, max=65535)]

# Tracebacks and markup stay plain: people paste terminal output into reports.
PLAIN: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "add_completion": False,
}

app = typer.Typer(
    name="lineloop",
    help="A durable runtime in which people, agents and mini-apps work together.",
    no_args_is_help=True,
    **PLAIN,
)
token_app = typer.Typer(help="Credentials for programs.", no_args_is_help=True, **PLAIN)
apps_app = typer.Typer(help="MiniApps of a device.", no_args_is_help=True, **PLAIN)
app.add_typer(token_app, name="token")
app.add_typer(apps_app, name="app")


def settings_for(
    data_dir: Path | None = None, server: str | None = None, token: str | None = None
) -> Settings:
    """The environment's settings with a command's options on top."""
    settings = Settings.from_environment()
    return replace(
        settings,
        data_dir=(data_dir or settings.data_dir).expanduser().absolute(),
        server=server or settings.server,
        token=token or settings.token,
    )


def _actor(text: str, option: str, kind: str | None = None) -> Actor:
    """Raises CommandFailed (2) when the option names no actor, or none of that kind."""
    try:
        actor = Actor.parse(text)
    except LoopError as error:
        raise CommandFailed(f"{option}: {error.message}", Exit.USAGE) from error
    if kind is not None and actor.kind != kind:
        raise CommandFailed(f"{option}: {text!r} is not {kind}/KEY", Exit.USAGE)
    return actor


def finish(work: Callable[[], int | None]) -> None:
    """Runs a command and turns its failures into words and an exit code."""
    try:
        code = work() or 0
    except CommandFailed as failure:
        code = tell(failure)
    except LoopError as error:
        code = tell(failure_of(error))
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = Exit.FAILED
    except Exception as error:
        from lineloop.cli.lifetime import why_not_started

        failure = why_not_started(error)
        if failure is None:
            raise
        code = tell(failure)
    raise typer.Exit(int(code))


def run_async(work: Callable[[], Coroutine[Any, Any, int | None]]) -> None:
    """`finish` for commands that need an event loop."""
    import asyncio

    finish(lambda: asyncio.run(work()))


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(installed("lineloop"))
        raise typer.Exit


@app.command("up")
def up(
    data_dir: DataDir = None,
    server_port: Port = None,
    shell_port: Port = None,
    host: Host = None,
    no_open: NoOpen = False,
    ready_file: ReadyFile = None,
    chat: Annotated[bool, typer.Option("--chat", help="In a terminal, start and talk to it there.")] = False,
    stand_in: Annotated[bool, typer.Option("--stand-in", hidden=True)] = False,
) -> None:
    """Everything in one process: server, assistant and device Runtime."""
    settings = settings_for(data_dir)

    def work() -> int:
        quick_start.begin()
        from lineloop.cli.up import UpOptions, run_up, up_with_chat

        options = UpOptions(
            settings.data_dir, server_port, shell_port, host, not no_open, ready_file, stand_in
        )
        if chat and sys.stdin.isatty() and sys.stdout.isatty():
            return up_with_chat(settings, options)
        return run_up(settings, options)

    finish(work)


@app.command("serve")
def serve(
    data_dir: DataDir = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="FILE, sqlite:///FILE or postgresql://…; the data directory's own by default. For a FILE "
            "without --data-dir, credentials and the ready file lie beside it, in FILE.lineloop.",
            metavar="FILE|URL",
        ),
    ] = None,
    redis: Annotated[str | None, typer.Option(help="Wake-ups for several servers.")] = None,
    port: Port = None,
    ready_file: ReadyFile = None,
) -> None:
    """The conversation server alone."""
    settings = settings_for(data_dir)

    def work() -> int:
        quick_start.begin()
        from lineloop.cli.serve import run_serve

        return run_serve(
            settings,
            database=database,
            redis=redis,
            port=port,
            ready_file=ready_file,
            beside=data_dir is None and settings.data_dir == default_data_dir().absolute(),
        )

    finish(work)


@app.command("device")
def device(
    server: Server = None,
    token: Token = None,
    data_dir: DataDir = None,
    host: Host = None,
    shell_port: Port = None,
    no_open: NoOpen = False,
    ready_file: ReadyFile = None,
) -> None:
    """The device Runtime alone, joined to a server."""
    settings = settings_for(data_dir, server, token)

    def work() -> int:
        quick_start.begin()
        from lineloop.cli.device import DeviceOptions, run_device

        return run_device(settings, DeviceOptions(host or "headless", shell_port, not no_open, ready_file))

    finish(work)


@app.command("open")
def open_shell(data_dir: DataDir = None, no_open: NoOpen = False) -> None:
    """A link that opens the running device's shell in a browser, once."""
    settings = settings_for(data_dir)

    async def work() -> int:
        from lineloop.cli.web import open_shell as open_it

        return await open_it(settings, open_browser=not no_open)

    run_async(work)


@app.command("run")
def run_operator(
    file_or_module: Annotated[str, typer.Argument(metavar="FILE_OR_MODULE")],
    server: Server = None,
    token: Token = None,
    data_dir: DataDir = None,
    kubernetes: Annotated[bool, typer.Option("--kubernetes", help="Resources live in a cluster.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Tracebacks of mistakes in your file.")] = False,
) -> None:
    """Your operators, from a file or a module."""
    settings = settings_for(data_dir, server, token)

    async def work() -> int:
        from lineloop.cli.run import run_operators

        return await run_operators(settings, file_or_module, kubernetes=kubernetes, debug=debug)

    run_async(work)


@app.command("chat")
def chat(  # noqa: PLR0913 (every option of a command is a parameter)
    text: Annotated[str | None, typer.Argument(help="Say this, wait for the answer and exit.")] = None,
    conversation: Annotated[str | None, typer.Option(help="Go on in this conversation.")] = None,
    to: Annotated[str, typer.Option(help="Whom you talk to.", metavar="operator/KEY")] = "operator/assistant",
    as_json: Json = False,
    new: Annotated[bool, typer.Option("--new", help="Begin a new conversation.")] = False,
    answer: Annotated[
        str | None, typer.Option(help="Answer the open question: a number, a label or your words.")
    ] = None,
    dismiss: Annotated[bool, typer.Option("--dismiss", help="Close the open question unanswered.")] = False,
    question: Annotated[str | None, typer.Option(help="Which one, when several are open.")] = None,
    data_dir: DataDir = None,
    server: Server = None,
    token: Token = None,
) -> None:
    """Talk to your agents in the terminal.

    With TEXT: say it once, wait for its answer, exit. Exit code 75 means that the answer waits for yours to a
    question (give it with --answer or --dismiss), or that the server is gone; what became of TEXT is said.
    """
    settings = settings_for(data_dir, server, token)

    async def work() -> int:
        _actor(to, "--to", OPERATOR)
        from lineloop.cli.chat.command import ChatOptions, run_chat

        return await run_chat(
            settings, ChatOptions(text, conversation, to, as_json, new, answer, dismiss, question)
        )

    run_async(work)


@token_app.command("create")
def token_create(
    actor: Annotated[str, typer.Option(help="Whom the token speaks as.", metavar="KIND/KEY")],
    data_dir: DataDir = None,
    server: Server = None,
    admin_token: AdminToken = None,
    as_json: Json = False,
) -> None:
    """Make a token. It is shown once."""
    settings = settings_for(data_dir, server, admin_token)

    async def work() -> int:
        named = _actor(actor, "--actor")
        from lineloop.cli.tokens import create_token

        return await create_token(settings, named, as_json=as_json)

    run_async(work)


@token_app.command("list")
def token_list(
    data_dir: DataDir = None, server: Server = None, admin_token: AdminToken = None, as_json: Json = False
) -> None:
    """The tokens that exist, without their secrets."""
    settings = settings_for(data_dir, server, admin_token)

    async def work() -> int:
        from lineloop.cli.tokens import list_tokens

        return await list_tokens(settings, as_json=as_json)

    run_async(work)


@token_app.command("revoke")
def token_revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID")],
    data_dir: DataDir = None,
    server: Server = None,
    admin_token: AdminToken = None,
) -> None:
    """End a token at once."""
    settings = settings_for(data_dir, server, admin_token)

    async def work() -> int:
        from lineloop.cli.tokens import revoke_token

        return await revoke_token(settings, token_id)

    run_async(work)


@app.command("export")
def export(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Its id.")],
    export_format: Annotated[
        str, typer.Option("--format", help="json or markdown.", metavar="json|markdown")
    ] = "json",
    output: Annotated[Path | None, typer.Option(help="A file instead of stdout.", metavar="FILE")] = None,
    data_dir: DataDir = None,
    server: Server = None,
    token: Token = None,
) -> None:
    """A whole conversation as a document to keep."""
    if export_format not in ("json", "markdown"):
        raise typer.BadParameter("json or markdown", param_hint="--format")
    settings = settings_for(data_dir, server, token)

    async def work() -> int:
        from lineloop.cli.export import export_conversation

        return await export_conversation(settings, conversation, export_format, output)

    run_async(work)


@app.command("backup")
def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new directory.", parser=_path)],
    data_dir: DataDir = None,
) -> None:
    """Copy server and device as of one moment, also while they run."""
    settings = settings_for(data_dir)

    def work() -> int:
        from lineloop.cli.backup import back_up

        return back_up(settings, directory.expanduser().absolute())

    finish(work)


@app.command("restore")
def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Made by backup.", parser=_path)],
    data_dir: DataDir = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree that it takes the place of what is there.")
    ] = False,
) -> None:
    """Put a backup in the place of a data directory on which nothing runs."""
    settings = settings_for(data_dir)

    def work() -> int:
        from lineloop.cli.backup import restore as put_back

        return put_back(settings, directory.expanduser().absolute(), yes=yes)

    finish(work)


@app.command("audit")
def audit(
    call: Annotated[str | None, typer.Option(help="The story of one call id.")] = None,
    app_scope: Annotated[str | None, typer.Option("--app", help="Rows of one app.")] = None,
    conversation: Annotated[str | None, typer.Option(help="Rows of one conversation.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000)] = 200,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Who did what on this device."""
    settings = settings_for(data_dir)

    def work() -> int:
        from lineloop.cli.audit import AuditQuery, show_audit

        return show_audit(settings, AuditQuery(call, app_scope, conversation, limit), as_json=as_json)

    finish(work)


@app.command("doctor")
def doctor(
    data_dir: DataDir = None,
    fault_sites: Annotated[bool, typer.Option("--fault-sites", help="Where faults can be injected.")] = False,
    as_json: Json = False,
) -> None:
    """Check this machine and this data directory."""
    settings = settings_for(data_dir)

    def work() -> int:
        from lineloop.cli.doctor import list_fault_sites, run_checks

        return list_fault_sites(as_json=as_json) if fault_sites else run_checks(settings, as_json=as_json)

    finish(work)


@apps_app.command("list")
def app_list(data_dir: DataDir = None, as_json: Json = False) -> None:
    """Installed apps, their versions and whether they are enabled."""
    _app_command("list", data_dir, as_json)


@apps_app.command("install")
def app_install(
    source: Annotated[Path, typer.Argument(metavar="FILE|DIR")],
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what the app asks for.")] = False,
    as_json: Json = False,
) -> None:
    """Install an app from a directory."""
    _app_command("install", data_dir, as_json, source=str(source.expanduser().absolute()), yes=yes)


@apps_app.command("enable")
def app_enable(app_scope: str, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Let people and agents use an app again."""
    _app_command("enable", data_dir, as_json, app_scope=app_scope)


@apps_app.command("disable")
def app_disable(app_scope: str, data_dir: DataDir = None, as_json: Json = False) -> None:
    """End an app's work and take its tools away; its data stays."""
    _app_command("disable", data_dir, as_json, app_scope=app_scope)


@apps_app.command("remove")
def app_remove(
    app_scope: str,
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree that its data is deleted.")] = False,
    as_json: Json = False,
) -> None:
    """Disable an app and delete it with its data."""
    _app_command("remove", data_dir, as_json, app_scope=app_scope, yes=yes)


def _app_command(verb: str, data_dir: Path | None, as_json: bool, **arguments: Any) -> None:
    settings = settings_for(data_dir)

    async def work() -> int:
        from lineloop.cli.apps import run_app_command

        return await run_app_command(settings, verb, arguments, as_json=as_json)

    run_async(work)


def main() -> None:
    """Parses sys.argv and ends the process."""
    # Typer builds a validator for every option of every command; the one that was asked for is enough.
    asked = [command for command in app.registered_commands if [command.name] == sys.argv[1:2]]
    if asked:
        app.registered_commands, app.registered_groups = asked, []
    app()
