"""LevelDB as engine, through plyvel.

Opened with `paranoid_checks` and read with `verify_checksums`: without them LevelDB returned a flipped bit as a value,
and skipped commits in the middle of a damaged log. A bloom filter answers gets of absent keys without a read.

After a write that failed (disk full) the log may end in half a record. Opening drops that; a further write would put good
records behind it, which could not be read again. So the engine takes no writes after a failed one, until it is opened anew.

plyvel's iterators see the database as it was when they were made. Two faults of plyvel 1.5.1 are kept away from: a reverse
iterator whose only row lies at its start gives nothing, so reverse scans find their start themselves; and one that is
`seek`ed to its start gives a row from outside its bounds, so none is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import plyvel
from raystreams.stores.errors import ClosedStoreError, CorruptedStoreError, StateLockedError, StoreError
from raystreams.stores.keys import after
from raystreams.stores.protocols import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelDBSettings:
    """Sizes in bytes. The block cache holds uncompressed blocks; the write buffer is kept twice while it is written out."""

    block_cache: int = 8 << 20
    write_buffer: int = 8 << 20
    bloom_filter_bits: int = 10
    max_open_files: int = 500


class LevelDBEngine:
    """Committed rows in the files of a folder."""

    def __init__(self, path: Path, settings: LevelDBSettings | None = None) -> None:
        settings = settings or LevelDBSettings()
        self._path = str(path)
        self._broken: str | None = None
        self._below: dict[bytes, Any] = {}
        path.mkdir(parents=True, exist_ok=True)
        if not (path / "CURRENT").exists() and _has_rows(path):
            # LevelDB would take it for a new database, and delete its files.
            raise CorruptedStoreError(self._path, "the file CURRENT is gone")
        try:
            self._db = plyvel.DB(
                self._path,
                create_if_missing=True,
                paranoid_checks=True,
                lru_cache_size=settings.block_cache,
                write_buffer_size=settings.write_buffer,
                bloom_filter_bits=settings.bloom_filter_bits,
                max_open_files=settings.max_open_files,
            )
        except plyvel.Error as error:
            raise _translated(error, self._path) from error

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        return _get(self._db, key, self._path)

    def scan(
        self, prefix: bytes, start: bytes | None, stop: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows under a prefix, keys without it."""
        below = self._below.get(prefix)
        if below is None:
            below = self._below[prefix] = self._db.prefixed_db(prefix) if prefix else self._db
        return _scan(below, start, stop, reverse, self._path)

    def write(self, operations: list[Operation], /, *, sync: bool) -> None:
        """Apply all operations or none; with `sync` they are on disk when this returns."""
        if self._broken is not None:
            raise StoreError(f"the state in {self._path} takes no writes since one failed ({self._broken}). Open it anew")
        try:
            with self._db.write_batch(sync=sync) as batch:
                for key, value in operations:
                    if value is None:
                        batch.delete(key)
                    else:
                        batch.put(key, value)
        except (plyvel.Error, RuntimeError) as error:
            self._broken = _text(error)
            raise _translated(error, self._path) from error

    def snapshot(self) -> LevelDBSnapshot:
        """Return a view of the rows as they are now, safe to read from other threads."""
        try:
            return LevelDBSnapshot(self._db.snapshot(), self._path)
        except (plyvel.Error, RuntimeError) as error:
            raise _translated(error, self._path) from error

    def close(self) -> None:
        """Give files and lock back. Open iterators end."""
        self._db.close()


class LevelDBSnapshot:
    """A fixed view of the rows."""

    def __init__(self, snapshot: Any, path: str) -> None:
        self._snapshot, self._path = snapshot, path

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        return _get(self._snapshot, key, self._path)

    def scan(
        self, prefix: bytes, start: bytes | None, stop: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows as the engine does."""
        first = prefix + (start or b"")
        end = prefix + stop if stop is not None else after(prefix)
        cut = len(prefix)
        rows = _scan(self._snapshot, first, end, reverse, self._path)
        return ((key[cut:], value) for key, value in rows)

    def close(self) -> None:
        """Let LevelDB drop what only this view still needs."""
        self._snapshot.close()


def _get(source: Any, key: bytes, path: str) -> bytes | None:
    try:
        value: bytes | None = source.get(key, verify_checksums=True)
    except (plyvel.Error, RuntimeError) as error:
        raise _translated(error, path) from error
    return value


def _scan(
    source: Any, start: bytes | None, stop: bytes | None, reverse: bool, path: str
) -> Iterator[tuple[bytes, bytes]]:
    """Make the iterator at once, so that it sees the rows of now, and yield from it later."""
    try:
        rows = source.iterator(start=None if reverse else start, stop=stop, reverse=reverse, verify_checksums=True)
    except (plyvel.Error, RuntimeError) as error:
        raise _translated(error, path) from error
    return _guarded(rows if not reverse or not start else takewhile(lambda row: row[0] >= start, rows), rows, path)


def _guarded(taken: Iterator[tuple[bytes, bytes]], rows: Any, path: str) -> Iterator[tuple[bytes, bytes]]:
    try:
        yield from taken
    except (plyvel.Error, RuntimeError) as error:
        raise _translated(error, path) from error
    finally:
        rows.close()


def _text(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)


def _has_rows(path: Path) -> bool:
    return any(path.glob("*.ldb")) or any(log.stat().st_size for log in path.glob("*.log"))


_DAMAGE = ("No such file", ".ldb: Invalid argument")
"""A file that is missing, and a table that is shorter than what LevelDB wrote."""


def _translated(error: Exception, path: str) -> StoreError:
    """Return our error for one of plyvel's, which tell kinds apart by their text only."""
    text = _text(error)
    if isinstance(error, plyvel.CorruptionError) or "orruption" in text or any(sign in text for sign in _DAMAGE):
        return CorruptedStoreError(path, text)
    if "lock" in text and ("held" in text or "temporarily unavailable" in text):
        return StateLockedError(path)
    if "is closed" in text or "closed" in text:
        return ClosedStoreError(f"the state in {path}")
    if "No space left" in text:
        return StoreError(f"the disk of {path} is full ({text}): nothing of this commit was stored. Make room and start again")
    return StoreError(f"the state in {path} can't be read or written: {text}")
