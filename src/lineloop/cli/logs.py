"""Logs: one line per event on stderr, JSON for machines and short text for terminals.

Decides format, level and which fields never leave the process. Leaves what is logged to the parts.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

SECRET_FIELDS = frozenset(
    {"token", "admin_token", "secret", "cookie", "authorization", "password", "shell_code"}
)


def hide_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replaces the value of every field whose name says that it is a credential."""
    for name in event:
        if name.lower() in SECRET_FIELDS:
            event[name] = "(hidden)"
    return event


def set_up_quiet_logs(log_format: str | None) -> None:
    """For commands that start a part for a moment: only what a person should worry about."""
    set_up_logs(log_format, "error")


def set_up_logs(log_format: str | None, level: str) -> None:
    """Sends structlog and the standard library's records to stderr. Unknown levels count as info."""
    console = log_format == "console" or (log_format is None and sys.stderr.isatty())
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    renderer = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if console
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            hide_secrets,
            structlog.processors.StackInfoRenderer(),
            *([] if console else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    # Libraries speak up only when something is wrong; request lines would carry tokens of query strings.
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
