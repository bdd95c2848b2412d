"""Finding an operator in a Python file or module.

Decides what `FILE` and `MODULE[:NAME]` mean and which sentence a mistake gets. Running it is the worker's.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from lineloop.operators.operator import Operator
from lineloop.protocol.errors import InvalidRequest, LoopError, NotFound


def load_operator(reference: str) -> Operator:
    """The operator of `path/to/file.py[:name]` or `package.module[:name]`.

    Without a name the module must hold exactly one Operator. The file's directory is put on `sys.path`, so
    that it can import its neighbours. Raises NotFound when the file, module or name does not exist,
    InvalidRequest when it cannot be imported (the cause is chained), holds no or several Operators, or has no
    reconcile function.
    """
    place, name = _split(reference)
    module = _of_file(Path(place)) if place.endswith(".py") else _of_module(place)
    operator = _named(module, name, reference) if name else _only(module, reference)
    if not operator.ready:
        raise InvalidRequest(f"{reference}: operator {operator.key!r} has no @operator.reconcile function")
    return operator


def _split(reference: str) -> tuple[str, str | None]:
    # The last colon, so that a drive letter stays with its path.
    place, colon, name = reference.rpartition(":")
    if colon and name.isidentifier() and len(place) > 1:
        return place, name
    return reference, None


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise NotFound(f"there is no file {path}")
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    # A name of its own: a file called random.py must not take the place of the real one.
    name = f"_operator_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except LoopError:
        sys.modules.pop(name, None)
        raise
    except Exception as error:
        sys.modules.pop(name, None)
        raise InvalidRequest(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _of_module(name: str) -> ModuleType:
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise InvalidRequest(f"{name!r} is neither a .py file nor a module name")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotFound(f"there is no module {name}") from error
        raise InvalidRequest(f"module {name} cannot be imported: {error}") from error
    except LoopError:
        raise
    except Exception as error:
        raise InvalidRequest(f"module {name} cannot be imported: {type(error).__name__}: {error}") from error


def _named(module: ModuleType, name: str, reference: str) -> Operator:
    try:
        found = getattr(module, name)
    except AttributeError as error:
        raise NotFound(f"{reference}: the module has no {name!r}") from error
    if not isinstance(found, Operator):
        raise InvalidRequest(f"{reference} is a {type(found).__name__}, not an Operator")
    return found


def _only(module: ModuleType, reference: str) -> Operator:
    found = {id(value): (name, value) for name, value in vars(module).items() if isinstance(value, Operator)}
    if not found:
        raise InvalidRequest(f"{reference} holds no Operator")
    if len(found) > 1:
        names = ", ".join(sorted(name for name, _ in found.values()))
        raise InvalidRequest(f"{reference} holds several operators ({names}); name one: {reference}:NAME")
    return next(iter(found.values()))[1]
