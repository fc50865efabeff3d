"""Window stores: a value for each key and window start; with duplicates, several, in the order in which they came.

    R segment, key, start u64             value          (TimestampedWindowStore: timestamp i64, value)
    R segment, key, start, arrival u64    value          with `retain_duplicates`: buffers of stream-stream joins
    T start, key [, arrival]              (empty)        with `time_first`: windows as they close, in one scan

All bounds are on the window's start, and include both ends. One key: by time. Several: segment by segment, in a segment
by key, then by time; with `time_first` by time, then key. Each backward form is the exact mirror of its forward form.

A window that starts at the largest start so far less the retention, or before, is not shown and not taken; a `time_first`
store shows one millisecond more, as otherwise a window whose retention is its size would be gone when it closes.

Iterators fix the oldest window that they show when they are made, and look at rows at their first step: what was put in
between is seen (vectors W26, W27).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypedDict, overload

from raystreams.stores.iterators import StoreIterator
from raystreams.stores.keys import after
from raystreams.stores.keyvalue import decode_timestamped, key_bounds
from raystreams.stores.protocols import Keyspace
from raystreams.stores.segments import SegmentedStore, Segments
from raystreams.stores.serdes import KeySerde, ValueSerde
from raystreams.stores.values import MAX_TIME, Time, ValueAndTimestamp, Windowed, to_milliseconds
from typing_extensions import TypeVar, Unpack

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
R = TypeVar("R", default=Any)

_u64 = struct.Struct(">Q")
_i64 = struct.Struct(">q")


class WindowSettings(TypedDict):
    """What a window store is made with; times in milliseconds."""

    retention: int
    size: int
    segment_interval: int
    retain_duplicates: bool
    time_first: bool


class WindowReader(SegmentedStore, Generic[K, R]):
    """The reading half: over a store's keyspace, or what is committed of it."""

    def __init__(
        self, segments: Segments, keyspace: Keyspace, key: KeySerde[K], decode: Callable[[bytes], R], *,
        size: int, retain_duplicates: bool, time_first: bool,
    ) -> None:  # fmt: skip
        super().__init__(keyspace, segments)
        self._key = key
        self._encode_key, self._decode = key.encode, decode
        self._get = keyspace.get
        self.size = size
        self._retain_duplicates, self._time_first = retain_duplicates, time_first

    @overload
    def fetch(self, key: K, start: Time) -> R | None: ...
    @overload
    def fetch(self, key: K, start: Time, end: Time) -> StoreIterator[tuple[int, R]]: ...
    def fetch(self, key: K, start: Time, end: Time | None = None) -> R | StoreIterator[tuple[int, R]] | None:
        """Return the value of one window, or None; with `end`, iterate over `(start, value)` of a key, oldest first.

        Windows that start from `start` to `end`, both included. Windows past the retention are not given. Of duplicates,
        one window's value is the first that came.
        """
        if end is not None:
            return self._fetch(key, start, end, False)
        encoded, start = self._encode_key(key), to_milliseconds(start)
        segments = self._segments
        if start < segments.live or start < 0:
            return None
        time = _u64.pack(start)
        if self._retain_duplicates:
            rows = segments.rows_of_key(start, start, encoded, time, _u64.pack(start + 1))
            return next((self._decode(data) for _, data in rows), None)
        data = self._get(b"%b%b%b" % (segments.of(start), encoded, time))
        return None if data is None else self._decode(data)

    def backward_fetch(self, key: K, start: Time, end: Time) -> StoreIterator[tuple[int, R]]:
        """Iterate over the same rows as `fetch(key, start, end)`, from the last to the first."""
        return self._fetch(key, start, end, True)

    def _fetch(self, key: K, start: Time, end: Time, reverse: bool) -> StoreIterator[tuple[int, R]]:
        first = max(to_milliseconds(start), self._segments.live, 0)
        return self._iterator(self._rows_of_key(self._encode_key(key), first, to_milliseconds(end), reverse))

    def _rows_of_key(self, key: bytes, first: int, last: int, reverse: bool) -> Iterator[tuple[int, R]]:
        decode, start_of = self._decode, _u64.unpack_from
        if first > last:
            return
        rows = self._segments.rows_of_key(first, last, key, _u64.pack(first), _u64.pack(last + 1), reverse=reverse)
        for rest, data in rows:
            yield start_of(rest)[0], decode(data)

    def fetch_range(self, first: K | None, last: K | None, start: Time, end: Time) -> StoreIterator[tuple[Windowed[K], R]]:
        """Iterate over `(Windowed, value)` of the keys from `first` to `last`; None leaves a side open."""
        return self._fetch_range(first, last, start, end, False)

    def backward_fetch_range(
        self, first: K | None, last: K | None, start: Time, end: Time
    ) -> StoreIterator[tuple[Windowed[K], R]]:
        """Iterate over the same rows as `fetch_range`, from the last to the first."""
        return self._fetch_range(first, last, start, end, True)

    def fetch_all(self, start: Time, end: Time) -> StoreIterator[tuple[Windowed[K], R]]:
        """Iterate over `(Windowed, value)` of all keys."""
        return self._fetch_all(start, end, False)

    def backward_fetch_all(self, start: Time, end: Time) -> StoreIterator[tuple[Windowed[K], R]]:
        """Iterate over the same rows as `fetch_all`, from the last to the first."""
        return self._fetch_all(start, end, True)

    def all(self) -> StoreIterator[tuple[Windowed[K], R]]:
        """Iterate over everything that is within the retention."""
        return self._fetch_all(0, MAX_TIME, False)

    def backward_all(self) -> StoreIterator[tuple[Windowed[K], R]]:
        """Iterate over the same rows as `all`, from the last to the first."""
        return self._fetch_all(0, MAX_TIME, True)

    def scan_time(self, start: Time, end: Time) -> StoreIterator[tuple[Windowed[K], R]]:
        """Iterate over windows that start from `start` to `end` by time, then by key; only of a `time_first` store."""
        if not self._time_first:
            raise ValueError(f"store {self.name!r} has no index by time: build it with time_first=True")
        return self._fetch_all(start, end, False)

    def _fetch_all(self, start: Time, end: Time, reverse: bool) -> StoreIterator[tuple[Windowed[K], R]]:
        first, last = max(to_milliseconds(start), self._segments.live, 0), to_milliseconds(end)
        if self._time_first:
            return self._iterator(self._rows_by_time(first, last, reverse))
        return self._iterator(self._rows_of_range(b"", None, first, last, reverse))

    def _fetch_range(
        self, first: K | None, last: K | None, start: Time, end: Time, reverse: bool
    ) -> StoreIterator[tuple[Windowed[K], R]]:
        bounds = key_bounds(self._key, first, last, self.name)
        if bounds is None:
            return self._iterator(iter(()))
        low, high = bounds
        earliest = max(to_milliseconds(start), self._segments.live, 0)
        return self._iterator(self._rows_of_range(low or b"", high, earliest, to_milliseconds(end), reverse))

    def _rows_of_range(
        self, low: bytes, high: bytes | None, first: int, last: int, reverse: bool
    ) -> Iterator[tuple[Windowed[K], R]]:
        decode, scan = self._decode, self._keyspace.scan
        for segment in self._segments.between(first, last, reverse=reverse):
            stop = after(segment) if high is None else segment + high + b"\xff"
            for row, data in scan(segment + low, stop, reverse=reverse):
                key, start = self._key_and_start(row)
                if first <= start <= last:
                    yield self._windowed(key, start), decode(data)

    def _rows_by_time(self, first: int, last: int, reverse: bool) -> Iterator[tuple[Windowed[K], R]]:
        for start, key, rest in self._segments.by_time(first, last, reverse=reverse):
            data = self._segments.row(start, key, rest)
            if data is not None:  # else deleted since the scan began
                yield self._windowed(key, start), self._decode(data)

    def _key_and_start(self, row: bytes) -> tuple[bytes, int]:
        end = -16 if self._retain_duplicates else -8
        return row[9:end], _u64.unpack_from(row, len(row) + end)[0]

    def _windowed(self, key: bytes, start: int) -> Windowed[K]:
        return Windowed(self._key.decode(key), start, min(start + self.size, MAX_TIME))


class _Windows(WindowReader[K, R]):
    """The writing half that both stores share: rows as bytes, and the index by time."""

    def __init__(
        self, keyspace: Keyspace, key: KeySerde[K], decode: Callable[[bytes], R], **settings: Unpack[WindowSettings]
    ) -> None:
        duplicates, time_first = settings["retain_duplicates"], settings["time_first"]
        segments = Segments(
            keyspace, settings["retention"], settings["segment_interval"],
            margin=int(time_first), indexed=time_first, got=not duplicates,
        )  # fmt: skip
        super().__init__(
            segments, keyspace, key, decode, size=settings["size"], retain_duplicates=duplicates, time_first=time_first
        )

    def _write(self, key: bytes, data: bytes | None, start: Time) -> None:
        start, segments = to_milliseconds(start), self._segments
        if start < 0:
            raise ValueError(f"a window of store {self.name!r} starts at {start}, before the epoch")
        if not segments.observe(start):
            return
        rest = _u64.pack(start)
        if self._retain_duplicates:
            if data is None:
                return
            rest += _u64.pack(segments.next_sequence())
        segments.write(start, key, rest, data)


class WindowStore(_Windows[K, V]):
    """A value for each key and window start."""

    def __init__(self, keyspace: Keyspace, key: KeySerde[K], value: ValueSerde[V], **settings: Unpack[WindowSettings]) -> None:
        super().__init__(keyspace, key, value.decode, **settings)
        self._encode = value.encode

    def put(self, key: K, value: V | None, start: Time) -> None:
        """Set the value of a window, or add one with duplicates. None removes it; with duplicates it does nothing.

        A window past the retention is counted in `dropped`, and not stored.
        """
        self._write(self._encode_key(key), None if value is None else self._encode(value), start)


class TimestampedWindowStore(_Windows[K, ValueAndTimestamp[V]]):
    """A value for each key and window start, with the time of the record that wrote it."""

    def __init__(self, keyspace: Keyspace, key: KeySerde[K], value: ValueSerde[V], **settings: Unpack[WindowSettings]) -> None:
        super().__init__(keyspace, key, decode_timestamped(value), **settings)
        self._value = value
        self._encode = value.encode

    def put(self, key: K, value: V | None, timestamp: Time, start: Time) -> None:
        """Set the value of a window with the time of its record, as `WindowStore.put` does."""
        data = None if value is None else _i64.pack(to_milliseconds(timestamp)) + self._encode(value)
        self._write(self._encode_key(key), data, start)

    def plain(self) -> WindowReader[K, V]:
        """Return this store read without timestamps."""
        decode = self._value.decode
        return WindowReader(
            self._segments, self._keyspace, self._key, lambda data: decode(data[8:]),
            size=self.size, retain_duplicates=self._retain_duplicates, time_first=self._time_first,
        )  # fmt: skip
