"""Time in window and session stores: how far it has come, what is past the retention, and where rows lie.

    00                                   observed time i64, sequence u64
    R segment, key, time, ...            rows of one segment of time (segment = time // interval), then key by key
    T time, key, ...                     index by time, only where windows are given out as they close; empty values

Keys are encoded, so none is the beginning of another, and the rows of a key lie together in a segment. The segment goes
first as in Kafka, where it can be seen: rows of several keys come segment by segment, and by key within one. Because of that
the interval belongs to a store's identity.

Observed time is the largest time that was ever put, and part of the commit. What is older than it by the retention or more is
never shown, whether it has been deleted or not; one rule for all stores, where Kafka has three. Each commit deletes rows of
segments that were wholly past at the commit before: nothing newer can be in those, so there is no need to look at it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import chain
from typing import Any

from raystreams.stores.groups import Groups
from raystreams.stores.iterators import StoreIterator
from raystreams.stores.keys import skip_key
from raystreams.stores.protocols import META, Keyspace
from raystreams.stores.values import MAX_TIME

ROW, TIME_INDEX = b"R", b"T"

_u64 = struct.Struct(">Q").pack
_meta = struct.Struct(">qQ")

_DELETED_PER_COMMIT = 10_000
"""Bounds what a commit deletes; at least twice as many rows as were written, so that it keeps up."""


class Segments:
    """The clock of a store, and its rows by segments."""

    def __init__(
        self, keyspace: Keyspace, retention: int, interval: int, *, margin: int = 0, indexed: bool = False, got: bool = False
    ) -> None:
        """Read the clock.

        `margin` milliseconds past the retention are shown still. `indexed` rows have a second row by time. Rows that are `got`
        one by one (windows of an aggregation) are cached as such, and ranges of a key only once someone asks for one.
        """
        self.observed: int
        self.sequence: int
        noted = keyspace.get(META)
        self.observed, self.sequence = (-1, 0) if noted is None else _meta.unpack(noted)
        self.dropped = 0
        self._written = 0
        self._keyspace = keyspace
        self._interval = interval
        self._kept = retention - 1 + margin
        self._indexed, self._got = indexed, got
        self._noted = (self.observed, self.sequence)
        self._newest = self.observed // interval
        self._swept, self._past = 0, max(self.live, 0) // interval
        self._groups = Groups(keyspace, active=not got)
        keyspace.before_commit(self._note)

    @property
    def live(self) -> int:
        """The smallest time that is still shown."""
        return self.observed - self._kept

    def observe(self, time: int) -> bool:
        """Take notice of a time that is put; False, and counted, if it is past the retention."""
        if time > self.observed:
            self.observed = time
            number = time // self._interval
            if number > self._newest:
                self._newest = number
                self._groups.begin(ROW + _u64(number))
        elif time < self.observed - self._kept:
            self.dropped += 1
            return False
        self._written += 1
        return True

    def next_sequence(self) -> int:
        """Return the next arrival number of the store: it goes on over restarts, so duplicates never meet (KAFKA-5804)."""
        self.sequence += 1
        return self.sequence

    def of(self, time: int) -> bytes:
        """Return what the rows of a time's segment begin with."""
        return b"R" + _u64(time // self._interval)

    def write(self, time: int, key: bytes, rest: bytes, data: bytes | None) -> None:
        """Set or remove a row; its rest begins with its time."""
        segment = b"R" + _u64(time // self._interval)
        keyspace, row = self._keyspace, b"%b%b%b" % (segment, key, rest)
        if not self._got:
            keyspace.write(row, data)
        elif data is None:
            keyspace.delete(row)
        else:
            keyspace.put(row, data)
        if self._groups.active:
            self._groups.put(segment, key, rest, data)
        if self._indexed:
            keyspace.write(b"T%b%b%b" % (rest[:8], key, rest[8:]), None if data is None else b"")

    def rows_of_key(
        self, first: int, last: int, key: bytes, start: bytes, stop: bytes, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(rest, value)` of a key's rows in the segments from one time to another, rests from `start` to before `stop`."""
        groups = self._groups
        segments = self.between(first, last, reverse=reverse)
        if not groups.active:
            groups.activate()
        if groups.active:
            if len(segments) == 1:
                return groups.scan(segments[0], key, start, stop, reverse=reverse)
            return chain.from_iterable(groups.scan(segment, key, start, stop, reverse=reverse) for segment in segments)
        return self._scan(segments, key, start, stop, reverse)

    def _scan(
        self, segments: list[bytes], key: bytes, start: bytes, stop: bytes, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        for segment in segments:
            prefix = segment + key
            cut = len(prefix)
            for row, data in self._keyspace.scan(prefix + start, prefix + stop, reverse=reverse):
                yield row[cut:], data

    def row(self, time: int, key: bytes, rest: bytes) -> bytes | None:
        """Return the value of one row, or None."""
        if self._got:
            return self._keyspace.get(b"R%b%b%b" % (_u64(time // self._interval), key, rest))
        return next((data for _, data in self.rows_of_key(time, time, key, rest, rest + b"\0")), None)

    def between(self, first: int, last: int, *, reverse: bool = False) -> list[bytes]:
        """Return what the rows of all segments from one time to another begin with; none is above observed time."""
        last = min(last, self.observed)
        if first > last:
            return []
        lowest, highest = first // self._interval, last // self._interval
        if lowest == highest:
            return [b"R" + _u64(lowest)]
        if highest - lowest > 64:
            return self._existing(lowest, highest, reverse)
        numbers = range(lowest, highest + 1)
        return [ROW + _u64(number) for number in (reversed(numbers) if reverse else numbers)]

    def _existing(self, lowest: int, highest: int, reverse: bool) -> list[bytes]:
        """Find the segments that have rows by one seek each: a small interval under a long retention leaves most empty."""
        found = []
        position, end = ROW + _u64(lowest), ROW + _u64(highest + 1)
        while position < end:
            row = next(self._keyspace.scan(position, end), None)
            if row is None:
                break
            segment = row[0][:9]
            found.append(segment)
            position = segment + b"\xff" * 32
        return found[::-1] if reverse else found

    def by_time(self, first: int, last: int, *, reverse: bool = False) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield `(time, key, rest)` of the rows from one time to another, by time, then by key."""
        last = min(last, MAX_TIME)
        if first <= last:
            index = self._keyspace.scan(TIME_INDEX + _u64(first), TIME_INDEX + _u64(last + 1), reverse=reverse)
            for row, _ in index:
                end = skip_key(row, 9)
                yield int.from_bytes(row[1:9], "big"), row[9:end], row[1:9] + row[end:]

    # ---- at commits ---------------------------------------------------------------------------------------------

    def _note(self) -> None:
        if (self.observed, self.sequence) == self._noted:
            return
        self._keyspace.put(META, _meta.pack(self.observed, self.sequence))
        self._noted = (self.observed, self.sequence)
        self._sweep(max(_DELETED_PER_COMMIT, 2 * self._written))
        self._written = 0

    def _sweep(self, most: int) -> None:
        """Delete rows of segments that are past, each with its index row, and note which ones are past now."""
        for number, (row, _) in enumerate(self._keyspace.scan_committed(ROW + _u64(self._swept), ROW + _u64(self._past))):
            if number == most:
                break
            if self._got:
                self._keyspace.delete(row)
            else:
                self._keyspace.write(row, None)
            if self._indexed:
                end = skip_key(row, 9)
                self._keyspace.write(TIME_INDEX + row[end : end + 8] + row[9:end] + row[end + 8 :], None)
        else:
            self._swept = self._past
        self._past = max(self.live, 0) // self._interval
        self._groups.drop_before(ROW + _u64(self._past))


class SegmentedStore:
    """What window and session stores tell of their clock."""

    def __init__(self, keyspace: Keyspace, segments: Segments) -> None:
        self._keyspace, self._segments = keyspace, segments

    @property
    def name(self) -> str:
        """The store's name."""
        return self._keyspace.name

    @property
    def observed(self) -> int:
        """The largest time that was put (a window's start, a session's end), -1 before the first; kept over restarts."""
        return self._segments.observed

    @property
    def dropped(self) -> int:
        """How many puts were refused as past the retention, since the store was opened."""
        return self._segments.dropped

    def _iterator(self, rows: Iterator[Any]) -> StoreIterator[Any]:
        return StoreIterator(rows, self._keyspace, ends_with_store=True)
