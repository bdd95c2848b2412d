"""`lineloop app`: the apps of a device, through its registry, whether the Runtime runs or not.

Decides words and exit codes. Everything that matters (what may be installed, what ends when an app goes) is
decided by the registry, in the process that owns the data directory.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineloop.cli.chat.harmless import clean
from lineloop.cli.control import knock
from lineloop.cli.failures import CommandFailed, Exit
from lineloop.kit.json import dumps
from lineloop.protocol.errors import ConnectionLost, ErrorCode, InvalidRequest, LoopError
from lineloop.settings import Settings

if TYPE_CHECKING:
    from lineloop.device.apps import AppRegistry
    from lineloop.device.decide.apps import AppOperation, AppRecord

BUNDLE_SUFFIX = ".llapp"
CONSEQUENCES = {
    "install": "The app in {source} will run its own code in the logic container.",
    "remove": "Removing {app_scope} deletes it with everything that it has stored.",
}


async def run_app_command(settings: Settings, verb: str, arguments: dict[str, Any], *, as_json: bool) -> int:
    """Raises LoopError, CommandFailed."""
    if verb == "install":
        _check_source(Path(arguments["source"]))
    if (consequence := CONSEQUENCES.get(verb)) and not arguments.pop("yes"):
        _ask(consequence.format(**arguments))
    try:
        answer = await knock(settings.data_dir / "device", verb, arguments)
    except ConnectionLost:
        from lineloop.cli.device import closed_registry

        async with closed_registry(settings) as registry:
            answer = await carry_out(registry, verb, arguments)
    _show(verb, answer, as_json=as_json)
    return Exit.DONE


async def carry_out(registry: AppRegistry, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """One command on the registry of this process; waits for its end. Raises the LoopError it failed with."""
    match verb:
        case "list":
            return {"items": [_row(record) for record in await registry.records()]}
        case "install":
            begun = await registry.install(Path(arguments["source"]))
        case "enable":
            begun = await registry.enable(arguments["app_scope"])
        case "disable":
            begun = await registry.disable(arguments["app_scope"])
        case "remove":
            begun = await registry.remove(arguments["app_scope"])
        case _:
            raise InvalidRequest(f"no app command {verb!r}")
    return _ended(await registry.wait(begun.operation_id))


def _ended(operation: AppOperation) -> dict[str, Any]:
    if operation.error_code:
        raise LoopError(operation.error_message or operation.error_code, code=ErrorCode(operation.error_code))
    return {
        "operation_id": operation.operation_id,
        "kind": operation.kind,
        "app_scope": operation.app_scope,
        "state": operation.state.value,
    }


def _row(record: AppRecord) -> dict[str, Any]:
    return {
        "app_scope": record.app_scope,
        "version": record.installed_version,
        "kind": record.kind,
        "enabled": record.enabled,
        "unavailable": record.unavailable,
    }


def _check_source(source: Path) -> None:
    if source.suffix == BUNDLE_SUFFIX:
        raise CommandFailed("bundles cannot be installed yet; give the app's directory", Exit.USAGE)
    if not source.is_dir():
        raise CommandFailed(f"there is no directory {source}", Exit.NOT_FOUND)


def _ask(consequence: str) -> None:
    """Raises CommandFailed: 2 where nobody can be asked, 4 when the answer is not yes."""
    if not sys.stdin.isatty():
        raise CommandFailed("nobody can be asked here; say --yes to agree", Exit.USAGE, hint=consequence)
    print(f"{clean(consequence)} Go on? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed("nothing was changed: nobody agreed", Exit.REFUSED)


def _show(verb: str, answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(dumps(answer))
    elif verb == "list":
        for row in answer["items"]:
            state = row["unavailable"] or ("enabled" if row["enabled"] else "disabled")
            print(clean(f"{row['app_scope']:20} {row['version']:10} {row['kind']:10} {state}"))
    else:
        print(clean(f"{answer['app_scope']}: {verb} {answer['state']}"))
