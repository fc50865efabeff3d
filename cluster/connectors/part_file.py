"""One output file of one partition, `part-00000.jsonl`, written at explicit offsets.

A position is `{"path": name, "length": n}`: n bytes are committed. Opening truncates the file to them, so batches that come
again after a crash are written once. Bytes go to their offset and are never appended: a process that is thought dead and
still writes can only write the same bytes to the same place.

    open(None)           the file is made, or emptied: the job begins
    open(position)       the file must have the committed bytes; fewer is an error, since they are lost
    write(bytes)         at the length; the length grows only when all of it is written, so a full disk loses nothing
"""

from __future__ import annotations

import os
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from raystreams.cluster.connectors.base import Position
from raystreams.cluster.errors import SinkError


def part_path(folder: str | PathLike[str], partition: int, suffix: str) -> Path:
    """Return the path of a partition's file."""
    return Path(fspath(folder)) / f"part-{partition:05}{suffix}"


class PartFile:
    """A file that is cut to its committed length and written from there. With `fsync`, a write survives a power cut."""

    def __init__(self, path: Path, position: Position | None, *, fsync: bool = False) -> None:
        self.path, self._fsync = path, fsync
        self.length: int = 0 if position is None else position["length"]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SinkError(f"{path} can't be written: {error.strerror or error}") from error
        try:
            there = os.fstat(self._file).st_size
            if there < self.length:
                raise SinkError(
                    f"{path} has {there} bytes, and {self.length} had been written and committed: something else changed it. "
                    f"Put it back, or begin again: `raystreams reset`"
                )
            os.ftruncate(self._file, self.length)
            if fsync:
                _sync_folder(path.parent)
        except BaseException:
            os.close(self._file)
            raise

    def write(self, data: bytes) -> dict[str, Any]:
        """Write at the end of what is written; return the position after it."""
        offset, rest = self.length, memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._file, rest, offset)
                offset, rest = offset + written, rest[written:]
            if self._fsync:
                os.fsync(self._file)
        except OSError as error:
            raise SinkError(
                f"{self.path} can't be written: {error.strerror or error}. What is committed is safe: make room and start again"
            ) from error
        self.length = offset
        return self.position

    @property
    def position(self) -> dict[str, Any]:
        """The position after all that is written."""
        return {"path": self.path.name, "length": self.length}

    def beginning(self, size: int) -> bytes:
        """Return up to `size` bytes of what is written."""
        return os.pread(self._file, min(size, self.length), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
