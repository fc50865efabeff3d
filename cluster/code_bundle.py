"""A job and its user's code as bytes, to be run on machines that have raystreams and the libraries, but not the code.

    raystreams, python   versions; a worker must have the same, since a pickle holds byte code and our classes
    code                 a zip of the user's files (`code_files`)
    paths, modules       which folders of it belong on `sys.path`; which file a module is loaded from
    job                  the pickled `Job` (`code_pickle`)

Functions and classes of modules travel by their names, and the worker imports the modules, under the same names. What
`__main__` defines travels by value. So module-level state set after the import (`global LIMIT` in `build`) does not travel.

Relative paths mean the folder that the job was made in, so they are made absolute here: the state directory, and the `path`
of our own sources and sinks. A user's source or sink that has `located(folder)` is replaced by what that returns.

The code lies in a folder that is named by its hash. Workers of one machine share it: each unzips it beside, and the first one
to rename it wins.
"""

from __future__ import annotations

import copy
import hashlib
import io
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import msgspec
from raystreams.cluster import code_pickle, user_code
from raystreams.cluster.bindings import Bindings
from raystreams.cluster.code_files import LARGEST, MEGABYTE, CodeFiles, data_at, default_root, find_code, sizes
from raystreams.cluster.connectors.base import ReadAs
from raystreams.cluster.errors import ConfigError
from raystreams.cluster.job import Job

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_NAMED = 5


@runtime_checkable
class Located(Protocol):
    """A source or sink with relative paths of its own."""

    def located(self, folder: Path) -> Any:
        """Return this source or sink with its paths absolute, relative ones taken from the folder."""
        ...


class _Bundle(msgspec.Struct, frozen=True, kw_only=True):
    raystreams: str
    python: str
    root: str
    code: bytes
    paths: tuple[str, ...]
    modules: dict[str, str]
    job: bytes


class _Versions(msgspec.Struct, frozen=True):
    """What can be read of the bundle of any version."""

    raystreams: str
    python: str


def bundle(job: Job, *, root: Path | None = None) -> bytes:
    """Return a job and its code as bytes; ConfigError if something can't be pickled (it names what), or is too large.

    `root` is the folder of its code: that of the job file, or else of this program's script, or the working directory.
    """
    job = _located(job, Path.cwd())
    folder = default_root() if root is None else root.resolve()
    code = find_code(folder, _data_of(job))
    _check_size(folder, sizes(code.files))
    try:
        pickled = code_pickle.dumps(job)
    except Exception as error:
        raise ConfigError(_why_not(job, error)) from error
    if len(pickled) > LARGEST:
        large = {what: _length(piece) for what, piece in _pieces(job)}
        raise ConfigError(
            f"the job {job.name!r} is {_megabytes(len(pickled))} without its code, more than the {_megabytes(LARGEST)} that can "
            f"be sent: {_largest(large)}. Write the rows into files that every machine can read"
        )
    made = _Bundle(
        raystreams=version("raystreams"), python=PYTHON, root=str(folder), code=_zipped(code), paths=code.paths,
        modules=dict(code.modules), job=pickled,
    )  # fmt: skip
    return msgspec.msgpack.encode(made)


def open_bundle(data: bytes, folder: Path) -> Job:
    """Make the code of a bundle importable in this process, and return its job. The code is unzipped below `folder`.

    ConfigError if it was made by another version of raystreams or Python, or if this process has other code of the same name.
    """
    _check_versions(data)
    opened = _decode(data, _Bundle)
    code = _unzip(opened.code, folder)
    files = {name: code / path for name, path in opened.modules.items()}
    _check_loaded(files)
    for path in reversed(opened.paths):
        entry = str(code / path)
        if entry not in sys.path:
            sys.path.insert(0, entry)
    if renamed := {name: path for name, path in files.items() if not _is_named_as_file(name, path)}:
        sys.meta_path.insert(0, _Modules(renamed))
    try:
        job: Job = code_pickle.loads(opened.job)
    except Exception as error:
        raise ConfigError(
            f"the job can't be opened here: {user_code.place_of(error, None)}: {user_code.describe(error)}. The libraries that "
            f"its code imports must be installed on every machine of the cluster"
        ) from error
    return job


def _located(job: Job, folder: Path) -> Job:
    """Return the job with absolute paths."""
    made = copy.copy(job)
    made.state_dir = None if job.state_dir is None else folder / job.state_dir
    made.bindings = Bindings(
        {topic: _absolute(source, folder) for topic, source in job.bindings.sources.items()},
        {topic: tuple(_absolute(sink, folder) for sink in sinks) for topic, sinks in job.bindings.sinks.items()},
    )
    return made


def _absolute(connector: Any, folder: Path) -> Any:
    if isinstance(connector, ReadAs):
        return ReadAs(_absolute(connector.source, folder), **connector.settings)
    if isinstance(connector, Located):
        return connector.located(folder)
    path = _path_of(connector)
    if path is None:
        return connector
    made = copy.copy(connector)
    object.__setattr__(made, "path", str(folder / path))
    return made


def _path_of(connector: Any) -> str | None:
    """The path of one of our own sources and sinks of files. What a user's class means by `path`, who knows."""
    path = getattr(connector, "path", None)
    ours = any(cls.__module__.startswith("raystreams.cluster.connectors.") for cls in type(connector).__mro__)
    return os.fspath(path) if ours and isinstance(path, (str, os.PathLike)) and "://" not in os.fspath(path) else None


def _data_of(job: Job) -> list[Path]:
    """What the job reads and writes, which is no code."""
    found = [] if job.state_dir is None else [job.state_dir]
    for connector in (*job.bindings.sources.values(), *(sink for sinks in job.bindings.sinks.values() for sink in sinks)):
        path = getattr(connector.source if isinstance(connector, ReadAs) else connector, "path", None)
        if isinstance(path, (str, os.PathLike)) and os.path.isabs(path):
            found += data_at(path)
    return found


def _check_size(root: Path, files: Mapping[str, int]) -> None:
    total = sum(files.values())
    if total > LARGEST:
        raise ConfigError(
            f"the code in {root} is {_megabytes(total)}, more than the {_megabytes(LARGEST)} that can be sent to a cluster: "
            f"{_largest(files)}. Move data out of this folder, or put the job into a folder of its own"
        )


def _largest(named: Mapping[str, int]) -> str:
    largest = sorted(named.items(), key=lambda item: -item[1])[:_NAMED]
    return "the largest are " + ", ".join(f"{name} ({_megabytes(size)})" for name, size in largest)


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.1f} MB" if size % MEGABYTE else f"{size // MEGABYTE} MB"


def _zipped(code: CodeFiles) -> bytes:
    """The same files give the same bytes."""
    with io.BytesIO() as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in sorted(code.files.items()):
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
        return file.getvalue()


def _unzip(data: bytes, folder: Path) -> Path:
    there = folder / hashlib.sha256(data).hexdigest()[:16]
    if there.is_dir():
        return there
    folder.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix="unzipped-", dir=folder))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(beside)
        try:
            beside.rename(there)
        except OSError:
            if not there.is_dir():  # else another process was faster
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return there


def _pieces(job: Job) -> Iterator[tuple[str, Any]]:
    yield from ((f"the source of {topic!r}", source) for topic, source in job.bindings.sources.items())
    for topic, sinks in job.bindings.sinks.items():
        yield from ((f"the sink of {topic!r}", sink) for sink in sinks)
    yield from ((repr(name), node.operator) for name, node in job.topology.nodes.items())
    yield from ((f"the channel {name!r}", channel) for name, channel in job.topology.channels.items())
    yield from ((f"the store {name!r}", store) for name, store in job.topology.stores.items())


def _why_not(job: Job, error: Exception) -> str:
    for what, piece in (*_pieces(job), ("the topology", job.topology), ("the job", job)):
        failed = code_pickle.failure(piece)
        if failed is not None:
            return (
                f"{what} can't be sent to a cluster: {code_pickle.culprit(piece, failed)}. Make such a thing where it is used, "
                f"on the worker: in a module that is imported there, in a processor's init, or in read() and open()"
            )
    return f"the job {job.name!r} can't be sent to a cluster: {user_code.describe(error)}"


def _length(piece: Any) -> int:
    return len(code_pickle.dumps(piece))


def _check_versions(data: bytes) -> None:
    made, ours = _decode(data, _Versions), version("raystreams")
    if made.raystreams != ours:
        raise ConfigError(
            f"the job was submitted with raystreams {made.raystreams}, and this worker has raystreams {ours}. Install "
            f"raystreams {made.raystreams} on every machine of the cluster, or submit with {ours}"
        )
    if made.python != PYTHON:
        raise ConfigError(
            f"the job was submitted with Python {made.python}, and this worker has Python {PYTHON}: submit it with "
            f"Python {PYTHON}, or start the cluster with Python {made.python}"
        )


def _decode(data: bytes, as_type: type[Any]) -> Any:
    try:
        return msgspec.msgpack.decode(data, type=as_type)
    except msgspec.DecodeError as error:
        raise ConfigError(f"these {len(data)} bytes are no bundle of a job: {error}") from error


def _check_loaded(files: Mapping[str, Path]) -> None:
    for name, path in files.items():
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and Path(file).is_file() and Path(file).read_bytes() != path.read_bytes():
            raise ConfigError(
                f"this process has loaded another module {name!r}, from {file}: a job's code and other code, or other "
                f"versions of it, can't share a process. Rename the module"
            )


def _is_named_as_file(name: str, path: Path) -> bool:
    stem = path.parent.name if path.stem == "__init__" else path.name.partition(".")[0]
    return name.rpartition(".")[2] == stem


class _Modules(MetaPathFinder):
    """Finds modules whose file has another name: `user_code` gives a second topology.py of a process a name of its own."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a module's file, None if it isn't one of ours."""
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)
