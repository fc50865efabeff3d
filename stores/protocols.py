"""The seams of the stores: what a store needs from its database, and what operators may ask of a store.

A store knows bytes, order and time. It reads and writes one `Keyspace`, and never sees LevelDB, other stores, commits
or files; so memory and LevelDB share all code of all stores. Anything that gives these methods can hold a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)

Operation = tuple[bytes, bytes | None]
"""One row of a commit: a full key, and its bytes, or None where it is deleted."""


class Keyspace(Protocol):
    """The rows of one store, ordered by their keys' bytes. Writes are seen at once, and kept by the next commit.

    Keys that begin with a zero byte are for the store's own notes (`META`): key encodings never begin with one.
    """

    @property
    def name(self) -> str:
        """The store's name, for errors."""
        ...

    @property
    def closed(self) -> bool:
        """Whether it has been closed; reads and writes then raise ClosedStoreError."""
        ...

    @property
    def cache_bytes(self) -> int:
        """How much a store may keep of what it has read; 0 where a scan is cheap, or the store is short-lived."""
        ...

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        ...

    def put(self, key: bytes, value: bytes, /) -> None:
        """Set the bytes of a key."""
        ...

    def delete(self, key: bytes, /) -> None:
        """Remove a key; nothing happens if it isn't there."""
        ...

    def write(self, key: bytes, value: bytes | None, /) -> None:
        """Set or remove a row that is only ever scanned, and never got: no cache is troubled with it."""
        ...

    def swap(self, key: bytes, value: bytes | None, /) -> bytes | None:
        """Set the bytes of a key, or remove it for None, and return what was there."""
        ...

    def scan(
        self, start: bytes | None = None, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of `[start, stop)` in order of their keys, or from the last to the first.

        What it yields is fixed by the call: later writes and commits do not show.
        """
        ...

    def scan_committed(self, start: bytes, stop: bytes, /) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of `[start, stop)` of the last commit: for cleaning up, which need not know of anything newer."""
        ...

    def before_commit(self, callback: Callable[[], None], /) -> None:
        """Have `callback` called in every commit that follows, while its writes still belong to that commit."""
        ...


class Engine(Protocol):
    """The committed rows of a database: a sorted map in memory, or LevelDB."""

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        ...

    def scan(
        self, prefix: bytes, start: bytes | None, stop: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows under a prefix, in `[start, stop)`; keys are given and taken without the prefix."""
        ...

    def write(self, operations: list[Operation], /, *, sync: bool) -> None:
        """Apply all operations or none; with `sync` they are on disk when this returns."""
        ...

    def snapshot(self) -> Snapshot:
        """Return a view of the rows as they are now, which other threads may read."""
        ...

    def close(self) -> None:
        """Give files and locks back; a second call does nothing."""
        ...


class Snapshot(Protocol):
    """A fixed, read-only view of an engine's rows; safe to use from any thread."""

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        ...

    def scan(
        self, prefix: bytes, start: bytes | None, stop: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows as `Engine.scan` does."""
        ...

    def close(self) -> None:
        """Give the view up; a second call does nothing."""
        ...


META = b"\x00"
"""The key of a store's own notes (observed time, counters), below every encoded key."""
