"""Session stores: an aggregate for each key and session, from its start to its end, both included.

    R segment of end, key, end u64, start u64    aggregate
    T end, key, start                            (empty)      with `time_first`: sessions as they close, in one scan

`find_sessions(key, earliest_end, latest_start)` gives the sessions that end at `earliest_end` or later and start at
`latest_start` or earlier: those that touch or contain the time between them. It looks through all segments from that of
`earliest_end` on, as a session that ends much later may have begun early enough.

One key: by end, then by start. Several: segment by segment, in one by key, end, start. Backward forms are exact mirrors. A
session that ends at the largest end so far less the retention, or before, is not shown and not taken. Iterators fix that when
they are made, and look at rows at their first step.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Generic

from raystreams.stores.iterators import StoreIterator
from raystreams.stores.keys import after
from raystreams.stores.keyvalue import key_bounds
from raystreams.stores.protocols import Keyspace
from raystreams.stores.segments import SegmentedStore, Segments
from raystreams.stores.serdes import KeySerde, ValueSerde
from raystreams.stores.values import MAX_TIME, Time, Windowed, to_milliseconds
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)

_u64 = struct.Struct(">Q").pack
_two_u64 = struct.Struct(">QQ")
_times = _two_u64.unpack_from


class SessionStore(SegmentedStore, Generic[K, V]):
    """Aggregates of sessions."""

    def __init__(
        self, keyspace: Keyspace, key: KeySerde[K], value: ValueSerde[V], *,
        retention: int, segment_interval: int, time_first: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(keyspace, Segments(keyspace, retention, segment_interval, indexed=time_first))
        self._key = key
        self._encode_key = key.encode
        self._encode, self._decode = value.encode, value.decode
        self._time_first = time_first

    def put(self, session: Windowed[K], aggregate: V | None) -> None:
        """Set the aggregate of a session; None removes it. One past the retention is counted in `dropped`, and not stored."""
        self._write(session, None if aggregate is None else self._encode(aggregate))

    def remove(self, session: Windowed[K]) -> None:
        """Remove a session; nothing happens if it isn't there."""
        self._write(session, None)

    def _write(self, session: Windowed[K], data: bytes | None) -> None:
        key = self._encode_key(session.key)
        start, end = session.start, session.end
        if not 0 <= start <= end:
            raise ValueError(f"a session from {start} to {end} can't be: it starts at 0 or later, and ends at its start or later")
        segments = self._segments
        if not segments.observe(end):
            return
        segments.write(end, key, _two_u64.pack(end, start), data)

    def fetch_session(self, key: K, start: Time, end: Time) -> V | None:
        """Return the aggregate of exactly this session, or None."""
        encoded = self._encode_key(key)
        first, last = to_milliseconds(start), to_milliseconds(end)
        if last < self._segments.live or not 0 <= first <= last:
            return None
        data = self._segments.row(last, encoded, _two_u64.pack(last, first))
        return None if data is None else self._decode(data)

    def fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over `(session, aggregate)` of a key, by end."""
        return self._find(key, 0, MAX_TIME, False)

    def backward_fetch(self, key: K) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the same sessions as `fetch`, from the last to the first."""
        return self._find(key, 0, MAX_TIME, True)

    def find_sessions(self, key: K, earliest_end: Time, latest_start: Time) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the sessions of a key with end >= `earliest_end` and start <= `latest_start`, by end."""
        return self._find(key, earliest_end, latest_start, False)

    def backward_find_sessions(self, key: K, earliest_end: Time, latest_start: Time) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the same sessions as `find_sessions`, from the last to the first."""
        return self._find(key, earliest_end, latest_start, True)

    def fetch_range(self, first: K | None, last: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the sessions of the keys from `first` to `last`, both included; None leaves a side open."""
        return self._find_range(first, last, 0, MAX_TIME, False)

    def backward_fetch_range(self, first: K | None, last: K | None) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the same sessions as `fetch_range`, from the last to the first."""
        return self._find_range(first, last, 0, MAX_TIME, True)

    def find_sessions_range(
        self, first: K | None, last: K | None, earliest_end: Time, latest_start: Time
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the sessions of some keys with end >= `earliest_end` and start <= `latest_start`."""
        return self._find_range(first, last, earliest_end, latest_start, False)

    def backward_find_sessions_range(
        self, first: K | None, last: K | None, earliest_end: Time, latest_start: Time
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the same sessions as `find_sessions_range`, from the last to the first."""
        return self._find_range(first, last, earliest_end, latest_start, True)

    def find_ended(self, earliest_end: Time, latest_end: Time) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the sessions of all keys that end from `earliest_end` to `latest_end`, both included."""
        first, last = max(to_milliseconds(earliest_end), self._segments.live, 0), to_milliseconds(latest_end)
        rows = self._rows_of_range(b"", None, first, last, MAX_TIME, False)
        return self._iterator(rows)

    def scan_ends(self, first: Time, last: Time) -> StoreIterator[tuple[Windowed[K], V]]:
        """Iterate over the same sessions as `find_ended`, by end, key and start; only of a `time_first` store."""
        if not self._time_first:
            raise ValueError(f"store {self.name!r} has no index by time: build it with time_first=True")
        earliest = max(to_milliseconds(first), self._segments.live, 0)
        return self._iterator(self._rows_by_end(earliest, to_milliseconds(last)))

    def _find(
        self, key: K, earliest_end: Time, latest_start: Time, reverse: bool
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        encoded = self._encode_key(key)
        earliest = max(to_milliseconds(earliest_end), self._segments.live, 0)
        return self._iterator(self._rows_of_key(key, encoded, earliest, to_milliseconds(latest_start), reverse))

    def _find_range(
        self, first: K | None, last: K | None, earliest_end: Time, latest_start: Time, reverse: bool
    ) -> StoreIterator[tuple[Windowed[K], V]]:
        earliest = max(to_milliseconds(earliest_end), self._segments.live, 0)
        latest = to_milliseconds(latest_start)
        bounds = key_bounds(self._key, first, last, self.name)
        if bounds is None:
            return self._iterator(iter(()))
        return self._iterator(self._rows_of_range(bounds[0] or b"", bounds[1], earliest, MAX_TIME, latest, reverse))

    def _rows_of_key(
        self, key: K, encoded: bytes, earliest_end: int, latest_start: int, reverse: bool
    ) -> Iterator[tuple[Windowed[K], V]]:
        decode = self._decode
        rows = self._segments.rows_of_key(earliest_end, MAX_TIME, encoded, _u64(earliest_end), b"\xff", reverse=reverse)
        for rest, data in rows:
            end, start = _times(rest)
            if start <= latest_start:
                yield Windowed(key, start, end), decode(data)

    def _rows_of_range(
        self, low: bytes, high: bytes | None, earliest_end: int, latest_end: int, latest_start: int, reverse: bool
    ) -> Iterator[tuple[Windowed[K], V]]:
        decode, scan, segments = self._decode, self._keyspace.scan, self._segments
        for segment in segments.between(earliest_end, latest_end, reverse=reverse):
            stop = after(segment) if high is None else segment + high + b"\xff"
            for row, data in scan(segment + low, stop, reverse=reverse):
                end, start = _times(row, len(row) - 16)
                if earliest_end <= end <= latest_end and start <= latest_start:
                    yield Windowed(self._key.decode(row[9:-16]), start, end), decode(data)

    def _rows_by_end(self, first: int, last: int) -> Iterator[tuple[Windowed[K], V]]:
        for end, key, rest in self._segments.by_time(first, last):
            data = self._segments.row(end, key, rest)
            if data is not None:  # else removed since the scan began
                yield Windowed(self._key.decode(key), _times(rest)[1], end), self._decode(data)
