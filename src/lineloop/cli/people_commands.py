"""The words and options of `lineloop user` and `lineloop refusals`."""

from __future__ import annotations

from typing import Annotated

import typer

from lineloop.cli.commands import (
    PLAIN,
    AdminToken,
    DataDir,
    Json,
    Server,
    app,
    run_async,
    settings_for,
)

user_app = typer.Typer(help="People of a server.", no_args_is_help=True, **PLAIN)
app.add_typer(user_app, name="user")


@user_app.command("create")
def user_create(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Their name; a fresh one if none.")
    ] = None,
    data_dir: DataDir = None,
    server: Server = None,
    admin_token: AdminToken = None,
    as_json: Json = False,
) -> None:
    """Make a person, or another code for one. The code lets them in once, within a day."""
    settings = settings_for(data_dir, server, admin_token)

    async def work() -> int:
        from lineloop.cli.people import create_person

        return await create_person(settings, key, as_json=as_json)

    run_async(work)


@user_app.command("list")
def user_list(
    data_dir: DataDir = None, server: Server = None, admin_token: AdminToken = None, as_json: Json = False
) -> None:
    """Who may come in."""
    settings = settings_for(data_dir, server, admin_token)

    async def work() -> int:
        from lineloop.cli.people import list_people

        return await list_people(settings, as_json=as_json)

    run_async(work)


@user_app.command("remove")
def user_remove(
    key: Annotated[str, typer.Argument(metavar="KEY")],
    data_dir: DataDir = None,
    server: Server = None,
    admin_token: AdminToken = None,
) -> None:
    """End every way in of a person at once. What they said stays."""
    settings = settings_for(data_dir, server, admin_token)

    async def work() -> int:
        from lineloop.cli.people import remove_person

        return await remove_person(settings, key)

    run_async(work)


@app.command("refusals")
def refusals(
    data_dir: DataDir = None,
    server: Server = None,
    admin_token: AdminToken = None,
    limit: Annotated[int, typer.Option(help="How many of the newest.", min=1)] = 50,
    as_json: Json = False,
) -> None:
    """What a server refused to whom, the newest last."""
    settings = settings_for(data_dir, server, admin_token)

    async def work() -> int:
        from lineloop.cli.people import list_refusals

        return await list_refusals(settings, limit, as_json=as_json)

    run_async(work)
