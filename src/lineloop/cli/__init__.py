"""The command line (docs/reference/command-line.md).

Decides words, options and exit codes; every command's work stands in a module of its own, imported when the
command runs, so that `--help` and `up` start quickly. `up`, `serve`, `device` and `run` are composition
roots.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """The `lineloop` program. Ends the process with an exit code of the wire page."""
    from lineloop.cli import quick_start

    with quick_start.importing():
        from lineloop.cli import commands
        from lineloop.cli import people_commands as people_commands  # adds its words to the program
    commands.main()
