"""The rows of one key in one segment, kept in memory as sorted lists: ranges of a hot key need no LevelDB iterator.

To make an iterator and seek costs 3 to 20 us, as it asks every level; sessions, sliding windows and joins of streams read a
range of one key for every record. A group is read once, by one scan, and from then on kept up to date by the writes.

A segment that begins while the store is open is known whole: what has no group there has no rows. Memory is bounded:
beyond the limit the oldest segments are forgotten, the newest last; then their groups are read again when asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from raystreams.stores.protocols import Keyspace

_ROW_OVERHEAD = 120
"""About what a row takes in lists beside its bytes."""


class _Segment:
    """The groups of a segment: key -> (rests of rows' keys, their values), both in order."""

    __slots__ = ("groups", "size", "whole")

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.groups: dict[bytes, tuple[list[bytes], list[bytes]]] = {}
        self.size = 0


class Groups:
    """Rows whose keys are `segment, key, rest`; the rests of one key all sort after 00 and before FF."""

    def __init__(self, keyspace: Keyspace, *, active: bool) -> None:
        self._keyspace = keyspace
        self._limit = keyspace.cache_bytes
        self._size = 0
        self._segments: dict[bytes, _Segment] = {}
        self.active = active and self._limit > 0

    def activate(self) -> None:
        """Begin to keep what is read and written; a store that is never read in ranges needs no copy of its rows."""
        self.active = self._limit > 0

    def begin(self, segment: bytes) -> None:
        """Take notice that a segment has its first row: all that comes passes by here."""
        if self.active:
            self._segments[segment] = _Segment(whole=True)

    def drop_before(self, segment: bytes) -> None:
        """Forget the segments before one."""
        for old in [name for name in self._segments if name < segment]:
            self._size -= self._segments.pop(old).size

    def put(self, segment: bytes, key: bytes, rest: bytes, data: bytes | None) -> None:
        """Set or remove a row of a group, if the group is known."""
        known = self._segments.get(segment)
        if known is None:
            return
        group = known.groups.get(key)
        if group is None:
            if not known.whole or data is None:
                return
            group = known.groups[key] = ([], [])
        rests, values = group
        if data is not None and (not rests or rest > rests[-1]):
            rests.append(rest)
            values.append(data)
        else:
            at = bisect_left(rests, rest)
            if at < len(rests) and rests[at] == rest:
                old = len(values[at])
                if data is not None:
                    values[at] = data
                    self._grow(known, len(data) - old)
                else:
                    del rests[at], values[at]
                    self._grow(known, -len(rest) - old - _ROW_OVERHEAD)
                return
            if data is None:
                return
            rests.insert(at, rest)
            values.insert(at, data)
        self._grow(known, len(rest) + len(data) + _ROW_OVERHEAD)

    def _grow(self, segment: _Segment, size: int) -> None:
        segment.size += size
        self._size += size
        while self._size > self._limit and self._segments:
            self._size -= self._segments.pop(min(self._segments)).size

    def scan(
        self, segment: bytes, key: bytes, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(rest, value)` of a group's rows, from `start` to before `stop`, as they are now."""
        known = self._segments.get(segment)
        if known is None:
            known = self._segments[segment] = _Segment(whole=False)
        group = known.groups.get(key)
        if group is None:
            if known.whole:
                return iter(())
            group = self._load(known, segment, key)
        rests, values = group
        if not rests:
            return iter(())
        first = 0 if start <= rests[0] else bisect_left(rests, start)
        last = len(rests) if stop > rests[-1] else bisect_left(rests, stop)
        rows = zip(rests[first:last], values[first:last], strict=True)
        return iter(list(rows)[::-1]) if reverse else rows

    def _load(self, known: _Segment, segment: bytes, key: bytes) -> tuple[list[bytes], list[bytes]]:
        prefix = segment + key
        cut = len(prefix)
        rows = list(self._keyspace.scan(prefix, prefix + b"\xff"))
        group = ([row[cut:] for row, _ in rows], [data for _, data in rows])
        known.groups[key] = group
        size = sum(len(row) + len(data) + _ROW_OVERHEAD for row, data in rows) + len(key) + _ROW_OVERHEAD
        self._grow(known, size)
        return group
