"""Which files a path means, and their bytes: plain, .gz or .zst.

A path is a file, a folder (all files below it with the source's suffixes, whatever they are compressed with) or a glob.
Each file is a split. Its id is its path from the folder or from the glob's fixed part, so that a job and its data may be
moved together.
"""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import BinaryIO, Protocol

import zstandard
from raystreams.cluster.errors import ConfigError, SourceError
from raystreams.cluster.suggest import did_you_mean

FilePath = str | PathLike[str]
"""A path of a file or folder. In a job file it is relative to that file."""

COMPRESSIONS = ("", ".gz", ".zst")
_CHUNK = 1 << 16


def find_splits(path: FilePath, suffixes: Sequence[str]) -> dict[str, Path]:
    """Return the files of a path by the ids of their splits, in order of the ids. No file at all is a ConfigError."""
    text = fspath(path)
    if "://" in text:
        raise ConfigError(f"path: {text!r} is a URL; this source reads local files, folders and globs")
    given = Path(text)
    if given.is_file():
        return {given.name: given}
    if given.is_dir():
        endings = tuple(suffix + compression for suffix in suffixes for compression in COMPRESSIONS)
        found = [file for file in given.rglob("*") if file.is_file() and file.name.endswith(endings)]
        files = {file.relative_to(given).as_posix(): file for file in found if not _is_hidden(file, given)}
        if not files:
            raise ConfigError(f"path: the folder {text!r} has no files that end in {', '.join(endings)}")
    elif glob.has_magic(text):
        base = _fixed_part(given)
        matches = (Path(match) for match in glob.glob(text, recursive=True))
        files = {file.relative_to(base).as_posix(): file for file in matches if file.is_file()}
        if not files:
            raise ConfigError(f"path: no file matches {text!r}")
    else:
        raise ConfigError(f"path: there is no file or folder {text!r}{_near(given)}")
    return dict(sorted(files.items()))


def split_path(path: FilePath, split: str) -> Path:
    """Return the file of a split. A SourceError if it is gone: what had been read of it can't be read again."""
    given = Path(fspath(path))
    if given.is_dir() or glob.has_magic(fspath(path)):
        base = given if given.is_dir() else _fixed_part(given)
        file = base / split
        if not file.is_file():
            raise SourceError(f"the file {split!r} is no longer in {str(base)!r}, and was not read to its end. Put it back")
        return file
    if not given.is_file():
        raise ConfigError(f"path: there is no file or folder {str(given)!r}{_near(given)}")
    return given


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _fixed_part(pattern: Path) -> Path:
    """The folders of a glob before its first wildcard."""
    fixed = pattern
    while glob.has_magic(str(fixed)):
        fixed = fixed.parent
    return fixed


def _near(path: Path) -> str:
    there = path.parent
    if not there.is_dir():
        return f" (nor a folder {str(there)!r})"
    near = did_you_mean(path.name, (entry.name for entry in there.iterdir()))
    return near if "did you" in near else ""


class _Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...


class FileBytes:
    """The bytes of a file, decompressed. Damage is a SourceError that names it; `raw_read` is how much of the file was used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._raw: BinaryIO = path.open("rb")
        except OSError as error:
            raise SourceError(f"{path} can't be opened: {error.strerror or error}") from error
        self._bytes: _Bytes = self._raw
        if path.suffix == ".gz":
            self._bytes = gzip.GzipFile(fileobj=self._raw)
        elif path.suffix == ".zst":
            self._bytes = _ZstandardBytes(self._raw)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, b"" at the end."""
        try:
            return self._bytes.read(size)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise SourceError(f"{self.path} can't be read to its end, it is damaged or cut off: {error}") from error

    @property
    def raw_read(self) -> int:
        """How many bytes of the file, as it lies on disk, have been used."""
        return self._raw.tell()

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


class _ZstandardBytes:
    """zstandard's own reader takes a file that is cut off for one that ends; this one says so."""

    def __init__(self, raw: BinaryIO) -> None:
        self._chunks, self._rest = self._decompressed(raw), memoryview(b"")

    def read(self, size: int, /) -> bytes:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        given, self._rest = self._rest[:size], self._rest[size:]
        return bytes(given)

    @staticmethod
    def _decompressed(raw: BinaryIO) -> Iterator[bytes]:
        frame = None
        while chunk := raw.read(_CHUNK):
            while chunk:
                if frame is None:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                if data := frame.decompress(chunk):
                    yield data
                chunk = b""
                if frame.eof:
                    chunk, frame = frame.unused_data, None
        if frame is not None:
            raise EOFError("it ends inside a frame")
