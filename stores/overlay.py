"""The rows of one store: what isn't committed yet, over a cache, over the engine.

    get     _rows      newest value of every key written or read lately, None where there is none: one dict lookup
            _pending   what isn't committed; asked only when a key has fallen out of the cache
            _older     the former generation of the cache, dropped when the next one is full
            engine     LevelDB, or a sorted map in memory
    put     into _rows and _pending. A hot key that changes a thousand times between two commits is written once
    scan    engine's iterator, merged with a sorted view of _pending, which the first scan after a commit makes
    commit  _pending becomes operations of the batch; _rows stay, now as cache

Everything is keyed by encoded bytes and holds bytes, so nobody who changes a value he was given changes state.
Store objects keep counters of their own; so after a crash (`close`) they are made anew over a new keyspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from raystreams.stores.errors import ClosedStoreError, StoreError
from raystreams.stores.memory import SortedMap
from raystreams.stores.merge import merged
from raystreams.stores.protocols import Engine, Operation, Snapshot

_MISSING: Any = object()
_ROW_OVERHEAD = 130
"""About what a row costs in a dict beside its bytes: two bytes objects and the slot."""


class _Uncommitted:
    """What waits for the next commit, which every keyspace of a task has."""

    def __init__(self, name: str, prefix: bytes) -> None:
        self.name, self.prefix = name, prefix
        self.closed = False
        self.pending_bytes = 0
        self._pending: dict[bytes, bytes | None] = {}
        self._callbacks: list[Callable[[], None]] = []

    def before_commit(self, callback: Callable[[], None], /) -> None:
        """Have `callback` called before each commit."""
        self._callbacks.append(callback)

    def prepare(self) -> None:
        """Let the store write what it notes once per commit."""
        for callback in self._callbacks:
            callback()

    def operations(self) -> list[Operation]:
        """Return what isn't committed, as rows of the batch."""
        prefix = self.prefix
        return [(prefix + key, value) for key, value in self._pending.items()]


class OverlaidKeyspace(_Uncommitted):
    """A store's rows inside a task's database, cached in two generations of at most `cache_bytes` together."""

    def __init__(self, name: str, prefix: bytes, engine: Engine, cache_bytes: int) -> None:
        super().__init__(name, prefix)
        self.cache_bytes = cache_bytes
        self._engine = engine
        self._limit = cache_bytes // 2
        self._cached = 0
        self._rows: dict[bytes, bytes | None] = {}
        self._older: dict[bytes, bytes | None] = {}
        self._view: SortedMap | None = None
        # While nothing has fallen out of the cache of a store that was empty, what is not in it is not there.
        self._whole = next(engine.scan(prefix, None, None), None) is None

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        value: bytes | None = self._rows.get(key, _MISSING)
        return self._load(key) if value is _MISSING else value

    def put(self, key: bytes, value: bytes, /) -> None:
        """Set the bytes of a key."""
        self._rows[key] = value
        if self._view is None:
            self._pending[key] = value
        else:
            self._view.put(key, value)
        self.pending_bytes += len(key) + len(value)

    def delete(self, key: bytes, /) -> None:
        """Remove a key; nothing happens if it isn't there."""
        self._rows[key] = None
        if self._view is None:
            self._pending[key] = None
        else:
            self._view.put(key, None)
        self.pending_bytes += len(key)

    def write(self, key: bytes, value: bytes | None, /) -> None:
        """Set or remove a row that is only scanned, past the cache."""
        if self._view is None:
            self._pending[key] = value
        else:
            self._view.put(key, value)
        self.pending_bytes += len(key) + (0 if value is None else len(value))

    def swap(self, key: bytes, value: bytes | None, /) -> bytes | None:
        """Set or remove a key, and return what was there."""
        old: bytes | None = self._rows.get(key, _MISSING)
        if old is _MISSING:
            old = self._load(key)
        self._rows[key] = value
        if self._view is None:
            self._pending[key] = value
        else:
            self._view.put(key, value)
        self.pending_bytes += len(key) + (0 if value is None else len(value))
        return old

    def _load(self, key: bytes) -> bytes | None:
        value: bytes | None = self._pending.get(key, _MISSING)
        if value is _MISSING:
            value = self._older.get(key, _MISSING)
            if value is _MISSING:
                value = None if self._whole else self._engine.get(self.prefix + key)
        self._rows[key] = value
        self._grow(len(key) + (len(value) if value else 0) + _ROW_OVERHEAD)
        return value

    def _grow(self, size: int) -> None:
        self._cached += size
        if self._cached > self._limit:
            self._whole = self._whole and not self._older
            self._older, self._rows, self._cached = self._rows, {}, 0

    def scan(
        self, start: bytes | None = None, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of `[start, stop)` as they are now, in order or from the last to the first."""
        below = self._engine.scan(self.prefix, start, stop, reverse=reverse)
        if not self._pending:
            return below
        if self._view is None:
            self._view = SortedMap(self._pending)
        above = self._view.scan(start, stop, reverse=reverse)
        first = next(above, None)
        return below if first is None else merged(first, above, below, reverse=reverse)

    def scan_committed(self, start: bytes, stop: bytes, /) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of `[start, stop)` of the last commit."""
        return self._engine.scan(self.prefix, start, stop)

    def committed(self) -> None:
        """Forget what is pending: it is in the engine now."""
        if self._pending:
            self._grow(self.pending_bytes + _ROW_OVERHEAD * len(self._pending))
            self._pending, self._view = {}, None
            self.pending_bytes = 0

    def close(self) -> None:
        """Drop everything; every later call raises ClosedStoreError."""
        self.closed = True
        self._view, self._whole = None, False
        self._engine = _ClosedEngine(self.name)
        self._rows = self._older = self._pending = _ClosedRows(self.name)


class ResidentKeyspace(_Uncommitted):
    """A store's rows, all of them kept in memory: loaded when it is opened, committed like any other."""

    cache_bytes = 0

    def __init__(self, name: str, prefix: bytes, engine: Engine) -> None:
        super().__init__(name, prefix)
        self._all = SortedMap(dict(engine.scan(prefix, None, None)))
        self._rows = self._all.rows

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        return self._rows.get(key)

    def put(self, key: bytes, value: bytes, /) -> None:
        """Set the bytes of a key."""
        self._all.put(key, value)
        self._pending[key] = value
        self.pending_bytes += len(key) + len(value)

    def delete(self, key: bytes, /) -> None:
        """Remove a key; nothing happens if it isn't there."""
        self._all.remove(key)
        self._pending[key] = None
        self.pending_bytes += len(key)

    def write(self, key: bytes, value: bytes | None, /) -> None:
        """Set or remove a row."""
        if value is None:
            self.delete(key)
        else:
            self.put(key, value)

    def swap(self, key: bytes, value: bytes | None, /) -> bytes | None:
        """Set or remove a key, and return what was there."""
        old = self._rows.get(key)
        if value is None:
            self.delete(key)
        else:
            self.put(key, value)
        return old

    def scan(
        self, start: bytes | None = None, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of `[start, stop)` as they are now."""
        return self._all.scan(start, stop, reverse=reverse)  # type: ignore[return-value]  # no None in this map

    scan_committed = scan

    def committed(self) -> None:
        """Forget what is pending: it is in the engine now."""
        if self._pending:
            self._pending, self.pending_bytes = {}, 0

    def close(self) -> None:
        """Drop everything; every later call raises ClosedStoreError."""
        self.closed = True
        self._rows = self._pending = _ClosedRows(self.name)
        self._all = SortedMap(self._rows)


class CommittedKeyspace:
    """The committed rows of a store as they were when this was made; read-only, and safe to use from any thread."""

    cache_bytes = 0

    def __init__(self, name: str, prefix: bytes, snapshot: Snapshot) -> None:
        self.name = name
        self.closed = False
        self._prefix, self._snapshot = prefix, snapshot

    def get(self, key: bytes, /) -> bytes | None:
        """Return the bytes of a key, or None."""
        return self._snapshot.get(self._prefix + key)

    def scan(
        self, start: bytes | None = None, stop: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of `[start, stop)`."""
        return self._snapshot.scan(self._prefix, start, stop, reverse=reverse)

    scan_committed = scan

    def put(self, key: bytes, value: bytes, /) -> None:
        """Refuse."""
        self._refuse()

    def delete(self, key: bytes, /) -> None:
        """Refuse."""
        self._refuse()

    def write(self, key: bytes, value: bytes | None, /) -> None:
        """Refuse."""
        self._refuse()

    def swap(self, key: bytes, value: bytes | None, /) -> bytes | None:
        """Refuse."""
        self._refuse()

    def before_commit(self, callback: Callable[[], None], /) -> None:
        """Do nothing: there are no commits here."""

    def close(self) -> None:
        """Give the snapshot up."""
        self.closed = True
        self._snapshot.close()

    def _refuse(self) -> NoReturn:
        raise StoreError(f"store {self.name!r} is read-only here: a query sees what was committed, and changes nothing")


class _ClosedRows(dict[bytes, "bytes | None"]):
    """Stands in for the rows of a closed store, so that open ones need not ask whether they are open."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def _refuse(self, *_: Any) -> NoReturn:
        raise ClosedStoreError(f"store {self._name!r}")

    get = __getitem__ = __setitem__ = __contains__ = __iter__ = _refuse
    __bool__ = __len__ = _refuse


class _ClosedEngine:
    """Stands in for the engine of a closed store."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ClosedStoreError(f"store {self._name!r}")

    get = scan = write = snapshot = close = _refuse
