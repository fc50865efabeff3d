"""A sorted map in memory: the rows of an engine without files, and the view in order of what isn't committed yet.

`SortedMap` is a dict, and a sorted list of its keys that is made by the first scan and kept from then on; a map that is
never scanned costs no more than a dict. A scan sees the map as it was when the scan began: the first write after that
has each open scan copy what it still has to give (`_Scan.freeze`), so that only scans that are really interrupted pay.

`MemoryEngine` keeps committed rows in one such map. Pass the same engine to the next `TaskDatabase.open` and it goes on
from the last commit, as a process does that finds its files again. A snapshot is a map of what later commits have
overwritten, laid over the live rows; commits and snapshots take one lock, as snapshots are read by other threads.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from itertools import islice
from typing import Any

from raystreams.stores.keys import after
from raystreams.stores.merge import Row, merged
from raystreams.stores.protocols import Operation
from sortedcontainers import SortedList

_SMALL = 16
"""A scan that ends within so many rows is copied at once, which is cheaper than to watch over it."""


class SortedMap:
    """Bytes to bytes, or to None for a row that hides one below (an overlay's deletion)."""

    __slots__ = ("_keys", "_scans", "rows")

    def __init__(self, rows: dict[bytes, bytes | None] | None = None) -> None:
        self.rows: dict[bytes, bytes | None] = {} if rows is None else rows
        self._keys: Any = None
        self._scans: list[weakref.ref[_Scan]] = []

    def put(self, key: bytes, value: bytes | None) -> None:
        """Set a row; None is a value here."""
        if self._scans:
            self._freeze()
        if self._keys is not None and key not in self.rows:
            self._keys.add(key)
        self.rows[key] = value

    def remove(self, key: bytes) -> None:
        """Remove a row, if it is there."""
        if key in self.rows:
            if self._scans:
                self._freeze()
            del self.rows[key]
            if self._keys is not None:
                self._keys.remove(key)

    def scan(self, start: bytes | None, stop: bytes | None, *, reverse: bool = False) -> Iterator[Row]:
        """Yield the rows of `[start, stop)` as they are now, in order of their keys or from the last to the first."""
        if self._keys is None:
            self._keys = SortedList(self.rows)
        rows = self.rows
        walk = ((key, rows[key]) for key in self._keys.irange(start, stop, (True, False), reverse))
        head = list(islice(walk, _SMALL))
        if len(head) < _SMALL:
            return iter(head)
        scan = _Scan(head, walk)
        self._scans.append(weakref.ref(scan))
        return scan

    def freeze_scans(self) -> None:
        """Have open scans copy what they still have to give; called before the rows change behind `put`'s back."""
        if self._scans:
            self._freeze()

    def _freeze(self) -> None:
        for reference in self._scans:
            scan = reference()
            if scan is not None:
                scan.freeze()
        self._scans.clear()


class _Scan:
    """Rows of a map, first from a copy of the beginning, then from the map itself until someone writes to it."""

    __slots__ = ("__weakref__", "_head", "_rest")

    def __init__(self, head: list[Row], rest: Iterator[Row]) -> None:
        self._head: Iterator[Row] = iter(head)
        self._rest = rest

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        for row in self._head:
            return row
        return next(self._rest)

    def freeze(self) -> None:
        self._rest = iter(list(self._rest))


class MemoryEngine:
    """Committed rows in memory."""

    def __init__(self) -> None:
        self._map = SortedMap()
        self._lock = threading.RLock()
        self._snapshots: weakref.WeakSet[_MemorySnapshot] = weakref.WeakSet()

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        return self._map.rows.get(key)

    def scan(
        self, prefix: bytes, start: bytes | None, stop: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows under a prefix, keys without it."""
        cut = len(prefix)
        rows = self._map.scan(*_bounds(prefix, start, stop), reverse=reverse)
        return ((key[cut:], value) for key, value in rows)  # type: ignore[misc]  # committed rows are never None

    def write(self, operations: list[Operation], /, *, sync: bool) -> None:
        """Apply all operations."""
        with self._lock:
            for snapshot in self._snapshots:
                snapshot.remember(operations)
            for key, value in operations:
                if value is None:
                    self._map.remove(key)
                else:
                    self._map.put(key, value)

    def snapshot(self) -> _MemorySnapshot:
        """Return a view of the rows as they are now."""
        with self._lock:
            snapshot = _MemorySnapshot(self._map, self._lock)
            self._snapshots.add(snapshot)
            return snapshot

    def close(self) -> None:
        """Do nothing: rows stay, so that the engine can be opened again."""


class _MemorySnapshot:
    """The rows before the commits that came later: what those have overwritten lies over the live rows."""

    def __init__(self, live: SortedMap, lock: threading.RLock) -> None:
        self._live, self._lock = live, lock
        self._before = SortedMap()

    def remember(self, operations: list[Operation]) -> None:
        for key, _ in operations:
            if key not in self._before.rows:
                self._before.put(key, self._live.rows.get(key))

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        with self._lock:
            return self._before.rows[key] if key in self._before.rows else self._live.rows.get(key)

    def scan(
        self, prefix: bytes, start: bytes | None, stop: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows as the engine does; they are copied under the lock, as another thread commits meanwhile."""
        cut, bounds = len(prefix), _bounds(prefix, start, stop)
        with self._lock:
            over = self._before.scan(*bounds, reverse=reverse)
            under = self._live.scan(*bounds, reverse=reverse)
            first = next(over, None)
            # Live rows are never None, which the type of a map can't say.
            rows: list[Any] = list(under if first is None else merged(first, over, under, reverse=reverse))  # type: ignore[arg-type]
        return iter([(key[cut:], value) for key, value in rows])

    def close(self) -> None:
        """Forget what was remembered."""
        self._before = SortedMap()


def _bounds(prefix: bytes, start: bytes | None, stop: bytes | None) -> tuple[bytes | None, bytes | None]:
    first = prefix + start if start else prefix
    return first, (after(prefix) if stop is None else prefix + stop)
