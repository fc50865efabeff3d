"""Time in window and session stores: how far it has come, what is past the retention, and where rows lie.

    00                                   observed time i64, sequence u64
    R segment, key, time, ...            rows of one segment of time (segment = time // interval), then key by key
    T time, key, ...                     index by time, only where windows are given out as they close; empty values

Keys are encoded, so none is the beginning of another, and the rows of a key lie together in a segment. The segment goes
first as in Kafka, where it can be seen: rows of several keys come segment by segment, and by key within one. Because of that
the interval belongs to a store's identity.

Observed time is the largest time that was ever put, and part of the commit. What is older than it by the retention or more is
never shown, whether it has been deleted or not; one rule for all stores, where Kafka has three. Each commit deletes some
rows of segments that are wholly past.
"""

from __future__ import annotations

import struct

from raystreams.stores.keys import skip_key
from raystreams.stores.protocols import META, Keyspace

ROW, TIME_INDEX = b"R", b"T"

_u64 = struct.Struct(">Q").pack
_meta = struct.Struct(">qQ")

_DELETED_PER_COMMIT = 10_000
"""Bounds what a commit deletes; at least twice as many rows as were written, so that it keeps up."""


class Segments:
    """The clock of a store, and its rows by segments."""

    def __init__(self, keyspace: Keyspace, retention: int, interval: int, *, margin: int = 0, indexed: bool = False) -> None:
        """Read the clock. `margin` milliseconds past the retention are shown still; `indexed` rows have a second row by time."""
        noted = keyspace.get(META)
        self.observed: int
        self.sequence: int
        self.observed, self.sequence = (-1, 0) if noted is None else _meta.unpack(noted)
        self.dropped = 0
        self.written = 0
        self._keyspace = keyspace
        self._interval = interval
        self._kept = retention - 1 + margin
        self._indexed = indexed
        self._noted = (self.observed, self.sequence)
        self._swept = 0
        keyspace.before_commit(self._note)

    @property
    def live(self) -> int:
        """The smallest time that is still shown."""
        return self.observed - self._kept

    def observe(self, time: int) -> bool:
        """Take notice of a time that is put; False, and counted, if it is past the retention."""
        if time > self.observed:
            self.observed = time
        elif time < self.observed - self._kept:
            self.dropped += 1
            return False
        self.written += 1
        return True

    def next_sequence(self) -> int:
        """Return the next arrival number of the store: it goes on over restarts, so duplicates never meet (KAFKA-5804)."""
        self.sequence += 1
        return self.sequence

    def of(self, time: int) -> bytes:
        """Return what the rows of a time's segment begin with."""
        return ROW + _u64(time // self._interval)

    def between(self, first: int, last: int, *, reverse: bool = False) -> list[bytes]:
        """Return what the rows of all segments from one time to another begin with; none is above observed time."""
        last = min(last, self.observed)
        if first > last:
            return []
        numbers = range(first // self._interval, last // self._interval + 1)
        if len(numbers) > 64:
            return self._existing(numbers, reverse)
        return [ROW + _u64(number) for number in (reversed(numbers) if reverse else numbers)]

    def _existing(self, numbers: range, reverse: bool) -> list[bytes]:
        """Find the segments that have rows by one seek each: a small interval under a long retention leaves most empty."""
        found = []
        position = ROW + _u64(numbers.start)
        end = ROW + _u64(numbers.stop)
        while position < end:
            row = next(iter(self._keyspace.scan(position, end)), None)
            if row is None:
                break
            segment = row[0][:9]
            found.append(segment)
            position = segment + b"\xff" * 32
        return found[::-1] if reverse else found

    def _note(self) -> None:
        if (self.observed, self.sequence) == self._noted:
            return
        self._keyspace.put(META, _meta.pack(self.observed, self.sequence))
        self._noted = (self.observed, self.sequence)
        self._sweep(max(_DELETED_PER_COMMIT, 2 * self.written))
        self.written = 0

    def _sweep(self, most: int) -> None:
        """Delete rows of segments that are wholly past the retention, each with its index row."""
        oldest = max(self.live, 0) // self._interval
        if oldest <= self._swept:
            return
        delete = self._keyspace.delete
        for number, (row, _) in enumerate(self._keyspace.scan(ROW + _u64(self._swept), ROW + _u64(oldest))):
            if number == most:
                return
            delete(row)
            if self._indexed:
                delete(index_row(row))
        self._swept = oldest


def index_row(row: bytes) -> bytes:
    """Return the row by time of a row `R segment, key, time, rest`: `T time, key, rest`."""
    end = skip_key(row, 9)
    return TIME_INDEX + row[end : end + 8] + row[9:end] + row[end + 8 :]
