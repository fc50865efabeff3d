"""Code that a job file names: `file.py:name`, relative to the job file, or `module:name`.

The file's folder is put on `sys.path`, so that it can import what lies beside it. A file is loaded once, under its own name, as
`import` would: its classes are found again when they are unpickled. Its errors are told with its own file and line.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from raystreams.cluster.errors import ConfigError
from raystreams.cluster.suggest import did_you_mean
from raystreams.operators.errors import ProcessingError
from raystreams.stores.errors import RaystreamsError

UNKNOWN = "?"
"""The place of an error that came through no line of the user's."""


def load(reference: str, folder: Path) -> Any:
    """Return what `file.py:name` or `module:name` means; a ConfigError says what isn't there, or where its file fails."""
    where, separator, name = reference.partition(":")
    if not separator or not where or not name:
        raise ConfigError(f"{reference!r} names no code; write \"file.py:name\" or \"module:name\"")
    module = _load_file(folder / where) if where.endswith(".py") else _load_module(where, folder)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{where} has no {name!r}{did_you_mean(part, (n for n in vars(found) if not n.startswith('_')))}")
        found = getattr(found, part)
    return found


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    if not path.is_file():
        near = did_you_mean(path.name, (p.name for p in path.parent.glob("*.py"))) if path.parent.is_dir() else ""
        raise ConfigError(f"there is no file {path}{near}")
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path):
            return module
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        # Two jobs in one process may both have a topology.py.
        name = f"{name}_{abs(hash(str(path))):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    _add_to_path(path.parent)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, (Exception, SystemExit)):
            raise ConfigError(f"{place_of(error, path)}: {describe(error)}") from error
        raise
    return module


def _load_module(name: str, folder: Path) -> ModuleType:
    _add_to_path(folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ConfigError(f"there is no module {name!r}, neither installed nor in {folder}") from error
        raise ConfigError(f"{place_of(error, None)}: {describe(error)}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{place_of(error, None)}: {describe(error)}") from error


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def describe(error: BaseException) -> str:
    """Return an error in one line: its class and text."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def place_of(error: BaseException, path: Path | None) -> str:
    """Return `file:line` of the user's code that an error came through last: in `path`, or else outside of raystreams."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = tuple(f"{Path(package).resolve()}/" for package in _our_folders())
    outside = [
        frame
        for frame in frames
        if not frame.filename.startswith(("<frozen", *ours)) and Path(frame.filename).name != Path(__file__).name
    ]
    inside = [frame for frame in frames if path is not None and frame.filename == str(path)]
    for frame in reversed(inside or outside):
        return f"{frame.filename}:{frame.lineno}"
    return str(path) if path is not None else UNKNOWN


def _our_folders() -> list[str]:
    """The folders of raystreams: three, wherever they are installed."""
    from raystreams import cluster, operators, stores

    return [folder for package in (cluster, operators, stores) for folder in package.__path__]


def message_of(error: BaseException) -> str:
    """Return what a person is told of an error that ends a job; of a user's function also the line that raised."""
    if not isinstance(error, RaystreamsError):
        if isinstance(error, OSError):
            return f"{error.filename}: {error.strerror}" if error.filename else str(error)
        return f"{place_of(error, None)}: {describe(error)}"
    if isinstance(error, ProcessingError) and isinstance(error.__cause__, Exception):
        place = place_of(error.__cause__, None)
        if place != UNKNOWN:
            return f"{error}\n  at {place}"
    return str(error)
