"""A shorter start for long-running commands (benchmark B8): when things are done, never what is done."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

from lineloop.settings import without_pydantic_plugins

COLLECT_AFTER = (10_000, 20, 20)
"""Objects of one call or frame are given back by their counts; looking for circles after every few hundred
is in vain.
"""


@contextmanager
def importing() -> Generator[None]:
    """Importing makes hundreds of thousands of objects that stay; the collector would look through them
    again and again.
    """
    gc.disable()
    yield
    gc.enable()


def begin() -> None:
    """Call before importing the parts.

    structlog would load rich for pretty tracebacks, which costs more than structlog and is not used; and
    Pydantic would look through every installed package for plugins.
    """
    gc.disable()
    without_pydantic_plugins()
    if "rich" not in sys.modules:
        sys.modules["rich"] = cast("ModuleType", None)
        try:
            importlib.import_module("structlog")
        finally:
            del sys.modules["rich"]


def end() -> None:
    """Call when everything answers: what was made so far stays, so the collector need never look at it."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()
