"""Which files a job's code is: those that a worker needs to import what this process has imported, and may import later.

    the tree below a root     all Python files, and other files up to 1 MB; a worker has it as it lies here
    other folders             the loaded modules that are not installed, such as ../common/rates.py; of a package, all of it

What is installed (raystreams too), a worker has to have installed. Left out of the tree: state, what sources read and sinks
write, hidden files, environments, caches, and folders of databases. A tree of more than 64 MB or 10,000 files is an error:
it is hardly code.
"""

from __future__ import annotations

import glob
import os
import site
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from raystreams.cluster.errors import ConfigError

MEGABYTE = 1 << 20
LARGEST_FILE = MEGABYTE
LARGEST = 64 * MEGABYTE
MOST_FILES = 10_000

_MAIN = ("__main__", "__mp_main__")
_CODE = (".py", ".so", ".pyd")
_CACHES = ("__pycache__", "node_modules", "venv", "site-packages")
# pyvenv.cfg is in the folder of every virtual environment, CURRENT in that of every LevelDB.
_NO_CODE_BESIDE = ("pyvenv.cfg", "CURRENT")


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """Files by their path in a bundle, which of its folders belong on `sys.path`, and modules by the file they are loaded from.

    `modules` is needed since a file may be loaded under another name than its own (`user_code`).
    """

    files: Mapping[str, Path]
    paths: tuple[str, ...]
    modules: Mapping[str, str]


def find_code(root: Path, left_out: Collection[Path]) -> CodeFiles:
    """Find a job's files; `left_out` are files and folders that are data, where they don't contain the root itself."""
    root = root.resolve()
    if not root.is_dir():
        raise ConfigError(f"there is no folder {root} to take the job's code from")
    installed = _installed()
    no_code = {path.resolve() for path in (*left_out, *installed)}
    loaded = {name: (path, _base(name, path)) for name, path in _user_modules(installed).items()}
    bases = dict.fromkeys([root, *(base for _, base in loaded.values())])
    places = _places(root, bases)
    files = {_within(places[root], root, path): path for path in _tree(root, no_code)}
    packages = {(base, base / name.partition(".")[0]) for name, (_, base) in loaded.items() if not base.is_relative_to(root)}
    for base, package in sorted(packages):
        # A package is taken whole: it may import more of itself later.
        files |= {_within(places[base], base, path): path for path in _tree(package, no_code) if path.suffix == ".py"}
    modules = {name: _within(places[base], base, path) for name, (path, base) in loaded.items()}
    files |= {modules[name]: path for name, (path, _) in loaded.items()}
    order = {Path(entry).resolve(): number for number, entry in reversed([*enumerate(sys.path)])}
    paths = sorted(bases, key=lambda base: order.get(base, len(order)))
    return CodeFiles(files, tuple(places[base] for base in paths), modules)


def _places(root: Path, bases: Iterable[Path]) -> dict[Path, str]:
    """Where folders lie in a bundle: the root in `0` and what is below it there, others in `1`, `2` ..."""
    places: dict[Path, str] = {}
    outside = 0
    for base in bases:
        if base.is_relative_to(root):
            places[base] = _within("0", root, base)
        else:
            outside += 1
            places[base] = str(outside)
    return places


def _within(place: str, base: Path, path: Path) -> str:
    return "/".join((place, *path.relative_to(base).parts))


def default_root() -> Path:
    """Return the folder that this program imports its modules from: that of its script, or else the working directory."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None or Path(file).suffix != ".py" or _is_installed(Path(file).resolve(), _installed()):
        return Path.cwd()
    # `python -m package.main`: its modules are imported from above the package.
    depth = len((main.__package__ or "").split(".")) if main.__package__ else 0
    return Path(file).resolve().parents[depth]


def _is_installed(path: Path, installed: Sequence[Path]) -> bool:
    """Whether a file is one of Python, of an installed package or of raystreams."""
    in_packages = any(part in ("site-packages", "dist-packages") for part in path.parts)
    return in_packages or any(path.is_relative_to(folder) for folder in installed)


def _installed() -> list[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib", "scripts")
    folders = [sysconfig.get_path(name) for name in names] + site.getsitepackages() + [site.getusersitepackages()]
    packages = ("raystreams", "raystreams.cluster", "raystreams.operators", "raystreams.stores")
    ours = [folder for package in packages for folder in getattr(sys.modules.get(package), "__path__", ())]
    return [Path(folder).resolve() for folder in (*folders, *ours)]


def _user_modules(installed: Sequence[Path]) -> dict[str, Path]:
    """The loaded modules that are not installed, by name."""
    found = {name: _file_of(module) for name, module in list(sys.modules.items()) if name not in _MAIN}
    return {name: path for name, path in found.items() if path is not None and not _is_installed(path, installed)}


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.endswith(_CODE):
        return None
    path = Path(file).resolve()
    return path if path.is_file() else None


def _base(name: str, path: Path) -> Path:
    """The folder that a module is imported from: above its packages, if its file lies as its name says."""
    parts = name.split(".")
    if path.stem == "__init__":
        path = path.parent
    stem = path.name.partition(".")[0]
    if [*path.parent.parts[len(path.parent.parts) - len(parts) + 1 :], stem] == parts:
        return path.parents[len(parts) - 1]
    return path.parent


def _tree(root: Path, left_out: set[Path]) -> Iterator[Path]:
    count = 0
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if _is_code_folder(here / name, left_out))
        for name in sorted(names):
            path = here / name
            if name.startswith(".") or name.endswith((".pyc", ".pyo")) or path in left_out or not path.is_file():
                continue
            if path.stat().st_size > LARGEST_FILE:
                continue
            count += 1
            if count > MOST_FILES:
                raise ConfigError(
                    f"the job's code is taken from {root}, which has more than {MOST_FILES:,} files: too much to send to a "
                    f"cluster. Put the job into a folder of its own"
                )
            yield path


def _is_code_folder(path: Path, left_out: set[Path]) -> bool:
    if path.name.startswith(".") or path.name in _CACHES or path.name.endswith(".egg-info") or path in left_out:
        return False
    return not any((path / file).is_file() for file in _NO_CODE_BESIDE)


def data_at(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files or the folder that a source's or a sink's path means: `data/*.csv` its files now."""
    text = os.fspath(path)
    return [Path(match) for match in glob.glob(text, recursive=True)] if glob.has_magic(text) else [Path(text)]


def sizes(files: Mapping[str, Path]) -> dict[str, int]:
    """Return the files' sizes, by where they lie, the largest first."""
    found = {str(path): path.stat().st_size for path in files.values()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
