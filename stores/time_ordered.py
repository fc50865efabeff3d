"""Buffers that give back in the order of time: for grace joins and reordering, for suppress, for unmatched records.

    TimeOrderedBuffer    B time, key, arrival u64     payload           every put is kept; (time, key, arrival) order
                         00                           arrivals u64, count u64
    SuppressBuffer       K key                        time, payload     one row a key; (time, key) order
                         T time, key                  (empty)
                         00                           count u64, size u64
    OuterJoinBuffer      O side u8, time, key         payloads          a list a cell; (time, side, key, arrival) order

Times are u64 with the sign turned over. Keys are bytes; what follows one is kept apart by escaping it.

A buffer is a queue, and the front of a queue in LevelDB is a heap of deletions not yet compacted. So a buffer keeps the keys of
its first rows in memory (`_Front`): whether anything is due costs a comparison, and taking it out no scan.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice

from raystreams.stores.keys import escape, unescape
from raystreams.stores.protocols import META, Keyspace

_two_u64 = struct.Struct(">QQ")
_u64 = struct.Struct(">Q")
_u32 = struct.Struct(">I")
_SIGN = 1 << 63
_AHEAD = 256
"""How many keys a buffer reads ahead; it keeps twice as many at most."""


def _time(time: int) -> bytes:
    return _u64.pack(time + _SIGN)


class _Front:
    """The keys of the first rows of a queue whose rows begin `tag, time`: all below `_bound`, or all there are if it is None."""

    __slots__ = ("_bound", "_end", "_keyspace", "_rows", "_tag")

    def __init__(self, keyspace: Keyspace, tag: bytes) -> None:
        self._keyspace = keyspace
        self._tag, self._end = tag, tag + b"\xff" * 9
        self._rows: list[bytes] = []
        self._bound: bytes | None = tag

    def put(self, row: bytes) -> None:
        """Take notice of a row that was put."""
        if self._bound is None or row < self._bound:
            insort(self._rows, row)
            if len(self._rows) > 2 * _AHEAD:
                self._bound = self._rows[_AHEAD]
                del self._rows[_AHEAD:]

    def gone(self, row: bytes) -> None:
        """Take notice of a row that was deleted."""
        at = bisect_left(self._rows, row)
        if at < len(self._rows) and self._rows[at] == row:
            del self._rows[at]

    def first(self) -> bytes | None:
        """Return the smallest row, None if there is none."""
        if not self._rows:
            if self._bound is None:
                return None
            self._rows = [row for row, _ in islice(self._keyspace.scan(self._bound, self._end), _AHEAD)]
            self._bound = self._rows[-1] + b"\0" if len(self._rows) == _AHEAD else None
            if not self._rows:
                return None
        return self._rows[0]

    def time(self) -> int | None:
        """Return the smallest row's time."""
        row = self._rows[0] if self._rows else self.first()
        return None if row is None else _u64.unpack_from(row, len(self._tag))[0] - _SIGN

    def beyond(self, last: int) -> bytes:
        """Return what all rows up to a time, included, are below."""
        return self._tag + _time(last + 1)

    def due(self, up_to: int) -> Iterator[bytes]:
        """Yield the smallest row as long as its time is `up_to` at most; who takes it must delete it before the next."""
        limit = self.beyond(up_to)
        while (row := self.first()) is not None and row < limit:
            yield row

    def walk(self) -> Iterator[bytes]:
        """Yield all rows as they are now."""
        self.first()
        rest = () if self._bound is None else self._keyspace.scan(self._bound, self._end)
        return chain(tuple(self._rows), (row for row, _ in rest))


class TimeOrderedBuffer:
    """Payloads in the order of their time, then key, then arrival. Equal ones are all kept."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._front = _Front(keyspace, b"B")
        self._arrivals: int
        self.count: int
        self._arrivals, self.count = _two_u64.unpack(keyspace.get(META) or bytes(16))
        self._noted = (self._arrivals, self.count)
        keyspace.before_commit(self._note)

    def put(self, time: int, key: bytes, payload: bytes) -> None:
        """Add a payload."""
        self._arrivals += 1
        self.count += 1
        row = b"B%b%b%b" % (_time(time), escape(key), _u64.pack(self._arrivals))
        self._keyspace.put(row, payload)
        self._front.put(row)

    @property
    def min_time(self) -> int | None:
        """The smallest time in the buffer, None if it is empty."""
        return self._front.time()

    def evict(self, up_to: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Take out what has a time up to `up_to`, included, and yield `(time, key, payload)`.

        A row is gone when it is yielded. What is put meanwhile and is due comes too.
        """
        for row in self._front.due(up_to):
            payload = self._keyspace.swap(row, None)
            self._front.gone(row)
            self.count -= 1
            yield _u64.unpack_from(row, 1)[0] - _SIGN, unescape(row, 9)[0], payload or b""

    def scan(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield `(time, key, payload)` of all, and leave them in."""
        for row, payload in self._keyspace.scan(b"B", b"C"):
            yield _u64.unpack_from(row, 1)[0] - _SIGN, unescape(row, 9)[0], payload

    def _note(self) -> None:
        if (self._arrivals, self.count) != self._noted:
            self._noted = (self._arrivals, self.count)
            self._keyspace.put(META, _two_u64.pack(*self._noted))


class SuppressBuffer:
    """At most one payload a key, in the order of the time at which the key came in, then by key (KIP-328)."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._front = _Front(keyspace, b"T")
        self.count: int
        self.size_bytes: int
        self.count, self.size_bytes = _two_u64.unpack(keyspace.get(META) or bytes(16))
        self._noted = (self.count, self.size_bytes)
        keyspace.before_commit(self._note)

    def get(self, key: bytes) -> tuple[int, bytes] | None:
        """Return `(buffer time, payload)` of a key, or None."""
        row = self._keyspace.get(b"K" + key)
        return None if row is None else (_u64.unpack_from(row)[0] - _SIGN, row[8:])

    def put(self, key: bytes, buffer_time: int, payload: bytes) -> None:
        """Set the payload of a key. One that is in already keeps its buffer time."""
        old = self._keyspace.get(b"K" + key)
        if old is not None:
            self._keyspace.put(b"K" + key, old[:8] + payload)
            self.size_bytes += len(payload) - len(old) + 8
            return
        time = _time(buffer_time)
        row = b"T%b%b" % (time, key)
        self._keyspace.put(b"K" + key, time + payload)
        self._keyspace.write(row, b"")
        self._front.put(row)
        self.count += 1
        self.size_bytes += len(key) + len(payload) + 8

    @property
    def min_time(self) -> int | None:
        """The smallest buffer time, None if the buffer is empty."""
        return self._front.time()

    def evict(self, up_to: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Take out what has a buffer time up to `up_to`, included, and yield `(buffer time, key, payload)`."""
        for row in self._front.due(up_to):
            yield self._take(row)

    def pop_oldest(self) -> tuple[int, bytes, bytes] | None:
        """Take out the entry with the smallest buffer time and key; None if there is none."""
        row = self._front.first()
        return None if row is None else self._take(row)

    def _take(self, row: bytes) -> tuple[int, bytes, bytes]:
        key = row[9:]
        data = self._keyspace.swap(b"K" + key, None) or b""
        self._keyspace.write(row, None)
        self._front.gone(row)
        self.count -= 1
        self.size_bytes -= len(key) + len(data)
        return _u64.unpack_from(row, 1)[0] - _SIGN, key, data[8:]

    def _note(self) -> None:
        if (self.count, self.size_bytes) != self._noted:
            self._noted = (self.count, self.size_bytes)
            self._keyspace.put(META, _two_u64.pack(*self._noted))


class OuterJoinBuffer:
    """Records that have not met another yet, in cells of time, side and key; a cell holds a list, in order of arrival.

    A side is 0 or 1. At one time side 0 comes before side 1.
    """

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._fronts = (_Front(keyspace, b"O\x00"), _Front(keyspace, b"O\x01"))

    def put(self, time: int, side: int, key: bytes, payload: bytes) -> None:
        """Add a payload to the end of its cell's list."""
        row = b"O%c%b%b" % (side, _time(time), key)
        old = self._keyspace.get(row)
        if old is None:
            self._fronts[side].put(row)
        self._keyspace.put(row, (old or b"") + _u32.pack(len(payload)) + payload)

    def delete_cell(self, time: int, side: int, key: bytes) -> bool:
        """Remove a cell with its list; tell whether there was one."""
        row = b"O%c%b%b" % (side, _time(time), key)
        if self._keyspace.get(row) is None:
            return False
        self._keyspace.delete(row)
        self._fronts[side].gone(row)
        return True

    delete = delete_cell

    def min_time(self, side: int) -> int | None:
        """Return the smallest time of a side, None if it has no record."""
        return self._fronts[side].time()

    def walk(self) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Yield `(time, side, key, payload)` in this order, as the buffer is now; cells may be deleted meanwhile."""
        for row in merge(*(front.walk() for front in self._fronts), key=_by_time):
            yield from _cell(row, self._keyspace.get(row) or b"")  # none if it was deleted since

    def evict(self, up_to: tuple[int, int]) -> Iterator[tuple[int, int, bytes, bytes]]:
        """Take out the cells with a time up to that of their side, included, and yield as `walk` does.

        A cell is gone when its first payload is yielded.
        """
        right, left = self._fronts
        until = right.beyond(up_to[0]), left.beyond(up_to[1])
        while True:
            row, other = right.first(), left.first()
            if row is None or row >= until[0]:
                row = None
            if other is not None and other < until[1] and (row is None or _by_time(other) < _by_time(row)):
                row = other
            if row is None:
                return
            payloads = self._keyspace.swap(row, None)
            self._fronts[row[1]].gone(row)
            yield from _cell(row, payloads or b"")


def _cell(row: bytes, payloads: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    time, side, key = _u64.unpack_from(row, 2)[0] - _SIGN, row[1], row[10:]
    position = 0
    while position < len(payloads):
        start = position + 4
        position = start + _u32.unpack_from(payloads, position)[0]
        yield time, side, key, payloads[start:position]


def _by_time(row: bytes) -> tuple[bytes, int]:
    return row[2:10], row[1]
