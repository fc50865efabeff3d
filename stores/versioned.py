"""The versioned key-value store: the value of a key at any time within its history retention (KIP-889).

Each put is a version, valid from its timestamp until the next version of its key, in whatever order they arrive. A deletion
is a version too (a tombstone). The retention is also the grace period: a put that is older than the largest time the
store has seen, less the retention, is refused. A latest value never expires.

Values are handed out as new objects. How versions lie in rows: `version_rows.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from raystreams.stores.iterators import StoreIterator
from raystreams.stores.protocols import Keyspace
from raystreams.stores.serdes import KeySerde, ValueSerde
from raystreams.stores.values import MAX_TIME, MIN_TIME, Time, VersionedRecord, to_milliseconds
from raystreams.stores.version_rows import Version, VersionRows
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


def history_bounds(key: Any, start: Time | None, end: Time | None) -> tuple[int, int]:
    """Return the bounds of a history in milliseconds, None as open; ValueError if the start is after the end."""
    first = MIN_TIME if start is None else to_milliseconds(start)
    last = MAX_TIME if end is None else to_milliseconds(end)
    if first > last:
        raise ValueError(f"the history of {key!r} is asked for from {first} to {last}: the start is after the end")
    return first, last


class VersionedStore(Generic[K, V]):
    """Versions of values, by key and time."""

    def __init__(
        self, keyspace: Keyspace, key: KeySerde[K], value: ValueSerde[V], *, history_retention: int, segment_interval: int
    ) -> None:
        self._keyspace = keyspace
        self._rows = VersionRows(keyspace, history_retention, segment_interval)
        self._encode_key = key.encode
        self._encode, self._decode = value.encode, value.decode
        self.history_retention = history_retention

    @property
    def name(self) -> str:
        """The store's name."""
        return self._keyspace.name

    @property
    def observed(self) -> int:
        """The largest timestamp that was put, -1 before the first; kept over restarts."""
        return self._rows.observed

    @property
    def dropped(self) -> int:
        """How many puts and deletes were refused as older than the retention, since the store was opened."""
        return self._rows.dropped

    def put(self, key: K, value: V | None, timestamp: Time) -> int:
        """Store a version, replacing one with the same timestamp; None is a tombstone.

        Returns when the version that follows it begins (a tombstone or not), PUT_LATEST if there is none, or PUT_REFUSED if
        `timestamp` is older than the largest one so far less the retention; then nothing is stored.
        """
        data = None if value is None else self._encode(value)
        return self._rows.put(self._encode_key(key), data, to_milliseconds(timestamp))

    def get(self, key: K, *, as_of: Time | None = None) -> VersionedRecord[V] | None:
        """Return the latest version, or the one that is valid at a time; None where that is a tombstone or nothing.

        A version is valid from its timestamp, included, to its `valid_to`, not included. A time older than the retention
        finds only a latest version that was valid then already.
        """
        if as_of is None:
            found = self._rows.latest(self._encode_key(key))
            if found is None or found.data is None:
                return None
        else:
            found = self._rows.at(self._encode_key(key), to_milliseconds(as_of))
            if found is None:
                return None
        return VersionedRecord(self._decode(found.data), found.timestamp, found.valid_to)  # type: ignore[arg-type]  # a value

    def row_as_of(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """As `get(key, as_of=timestamp)`, for operators: with the time in milliseconds, and no conversion on the way."""
        found = self._rows.at(self._encode_key(key), timestamp)
        if found is None:
            return None
        return VersionedRecord(self._decode(found.data), found.timestamp, found.valid_to)  # type: ignore[arg-type]  # a value

    def delete(self, key: K, timestamp: Time) -> VersionedRecord[V] | None:
        """Put a tombstone, and return the version that was valid then, None if none was or the time is too old."""
        return self._record(self._rows.delete(self._encode_key(key), to_milliseconds(timestamp)))

    def history(
        self, key: K, start: Time | None = None, end: Time | None = None, *, reverse: bool = False
    ) -> StoreIterator[VersionedRecord[V]]:
        """Iterate over the values that were valid at any time from `start` to `end`, both included (KIP-968).

        Oldest first; newest first with `reverse`. Without bounds, over all that the retention keeps. A start after the end
        is a ValueError.
        """
        first, last = history_bounds(key, start, end)
        versions = self._rows.history(self._encode_key(key), first, last, reverse=reverse)
        decode = self._decode
        records = (VersionedRecord(decode(v.data), v.timestamp, v.valid_to) for v in versions)  # type: ignore[arg-type]  # values only
        return StoreIterator(records, self._keyspace)

    def neighbours(
        self, key: K, timestamp: Time
    ) -> tuple[VersionedRecord[V | None] | None, VersionedRecord[V | None] | None, VersionedRecord[V | None] | None]:
        """Return the versions before, at and after a time; a tombstone is a record of None."""
        before, same, after = self._rows.neighbours(self._encode_key(key), to_milliseconds(timestamp))
        return self._with_tombstone(before), self._with_tombstone(same), self._with_tombstone(after)

    def _record(self, version: Version | None) -> VersionedRecord[V] | None:
        if version is None or version.data is None:
            return None
        return VersionedRecord(self._decode(version.data), version.timestamp, version.valid_to)

    def _with_tombstone(self, version: Version | None) -> VersionedRecord[V | None] | None:
        if version is None:
            return None
        decode: Callable[[bytes], V] = self._decode
        return VersionedRecord(None if version.data is None else decode(version.data), version.timestamp, version.valid_to)
