"""A shorter start for long-running commands (benchmark B8): when things are done, never what is done."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType
from typing import cast


def begin() -> None:
    """Call before importing the parts.

    Importing makes hundreds of thousands of objects that stay; the collector would look through them again
    and again. And structlog would load rich for pretty tracebacks, which costs more than structlog and is
    not used.
    """
    gc.disable()
    if "rich" not in sys.modules:
        sys.modules["rich"] = cast("ModuleType", None)
        try:
            importlib.import_module("structlog")
        finally:
            del sys.modules["rich"]


def end() -> None:
    """Call when everything answers: what was made so far stays, so the collector need never look at it."""
    gc.freeze()
    gc.enable()
