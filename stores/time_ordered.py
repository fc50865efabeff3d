"""Buffers that give back in the order of time: for grace joins and reordering, for suppress, for unmatched records.

    TimeOrderedBuffer    B time, key, arrival u64     payload           every put is kept; (time, key, arrival) order
                         00                           arrivals u64, count u64
    SuppressBuffer       K key                        time, payload     one row a key; (time, key) order
                         T time, key                  (empty)
                         00                           count u64, size u64
    OuterJoinBuffer      O side u8, time, key         payloads          a list a cell; (time, side, key, arrival) order

Times are u64 with the sign turned over. Keys are bytes; what follows one is kept apart by escaping it.

A buffer is a queue, and the front of a queue in LevelDB is a heap of deletions not yet compacted. So each buffer remembers
the smallest row that there can be, and never reads below it; and it knows its smallest time without asking, so that "is
anything due?" costs a comparison a record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from heapq import merge

from raystreams.stores.keys import escape, unescape
from raystreams.stores.protocols import META, Keyspace

_two_u64 = struct.Struct(">QQ")
_u64 = struct.Struct(">Q")
_u32 = struct.Struct(">I")
_SIGN = 1 << 63


def _time(time: int) -> bytes:
    return _u64.pack(time + _SIGN)


class _Front:
    """The smallest row of a queue whose rows begin `tag, time`: exactly, or a bound below it until someone asks."""

    __slots__ = ("_end", "_keyspace", "_known", "_row")

    def __init__(self, keyspace: Keyspace, tag: bytes) -> None:
        self._keyspace = keyspace
        self._end = tag + b"\xff" * 9
        self._row: bytes | None = tag
        self._known = False

    def put(self, row: bytes) -> None:
        """Take notice of a row that was put."""
        if self._row is None or row < self._row:
            self._row, self._known = row, True

    def gone(self, row: bytes) -> None:
        """Take notice of a row that was deleted."""
        if row == self._row:
            self._known = False

    def first(self) -> bytes | None:
        """Return the smallest row, None if there is none."""
        if not self._known:
            found = next(self._keyspace.scan(self._row, self._end), None) if self._row is not None else None
            self._row, self._known = (None if found is None else found[0]), True
        return self._row

    def time(self) -> int | None:
        """Return the smallest row's time."""
        row = self._row if self._known else self.first()
        return None if row is None else _u64.unpack_from(row, len(self._end) - 9)[0] - _SIGN

    def rows(self, up_to: int | None) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows up to a time, included, as they are now."""
        first = self.first()
        if first is None or (up_to is not None and self.time() > up_to):  # type: ignore[operator]  # there is a first row
            return iter(())
        return self._keyspace.scan(first, self._end if up_to is None else self._end[:-9] + _time(up_to + 1))


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

        A row is gone when it is yielded. What is put meanwhile is not given, also if it is due.
        """
        for row, payload in self._front.rows(up_to):
            self._keyspace.delete(row)
            self._front.gone(row)
            self.count -= 1
            yield _u64.unpack_from(row, 1)[0] - _SIGN, unescape(row, 9)[0], payload

    def scan(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield `(time, key, payload)` of all, and leave them in."""
        for row, payload in self._front.rows(None):
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
        self._keyspace.put(row, b"")
        self._front.put(row)
        self.count += 1
        self.size_bytes += len(key) + len(payload) + 8

    @property
    def min_time(self) -> int | None:
        """The smallest buffer time, None if the buffer is empty."""
        return self._front.time()

    def evict(self, up_to: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Take out what has a buffer time up to `up_to`, included, and yield `(buffer time, key, payload)`."""
        for row, _ in self._front.rows(up_to):
            entry = self._take(row)
            if entry is not None:
                yield entry

    def pop_oldest(self) -> tuple[int, bytes, bytes] | None:
        """Take out the entry with the smallest buffer time and key; None if there is none."""
        row = self._front.first()
        return None if row is None else self._take(row)

    def _take(self, row: bytes) -> tuple[int, bytes, bytes] | None:
        key = row[9:]
        data = self._keyspace.swap(b"K" + key, None)
        if data is None:
            return None  # taken out since the scan began
        self._keyspace.delete(row)
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
        self._keyspace.put(row, (self._keyspace.get(row) or b"") + _u32.pack(len(payload)) + payload)
        self._fronts[side].put(row)

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
        for row, payloads in merge(*(front.rows(None) for front in self._fronts), key=_by_time):
            time, side, key = _u64.unpack_from(row, 2)[0] - _SIGN, row[1], row[10:]
            position = 0
            while position < len(payloads):
                start = position + 4
                position = start + _u32.unpack_from(payloads, position)[0]
                yield time, side, key, payloads[start:position]


def _by_time(row: tuple[bytes, bytes]) -> tuple[bytes, int]:
    return row[0][2:10], row[0][1]
