"""Key-value stores: one row a key, in the order of the keys.

    00          number of entries, u64
    key         value                           (KeyValueStore)
    key         timestamp i64, value            (TimestampedKeyValueStore)

The number of entries is exact: a put asks what was there, which the cache mostly knows, and LevelDB's bloom filter else.
A None value deletes, and so does a Serde that encodes a value to None. Bounds of ranges include both ends, None is open;
a range that is upside down is empty, and warns. Iterators see the store as it was when they were made.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic

from raystreams.stores.iterators import StoreIterator
from raystreams.stores.keys import after
from raystreams.stores.protocols import META, Keyspace
from raystreams.stores.serdes import KeySerde, ValueSerde
from raystreams.stores.values import Time, ValueAndTimestamp, to_milliseconds
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
R = TypeVar("R", default=Any)

_FIRST = b"\x01"
"""Below every encoded key, above META."""

_u64 = struct.Struct(">Q")
_i64 = struct.Struct(">q")
_logger = logging.getLogger(__name__)


def key_bounds(key: KeySerde[Any], first: Any, last: Any, store: str) -> tuple[bytes | None, bytes | None] | None:
    """Encode the bounds of a range, None for an open side. An empty range is None, with a warning."""
    start = None if first is None else key.encode(first)
    stop = None if last is None else key.encode(last)
    if start is not None and stop is not None and start > stop:
        _logger.warning(
            "store %r: the range from %r to %r is empty: the lower bound comes first, also in reverse", store, first, last
        )
        return None
    return start, stop


class KeyValueReader(Generic[K, R]):
    """The reading half, of any rows whose first part is a key: over a store's keyspace, or what is committed of it."""

    def __init__(self, keyspace: Keyspace, key: KeySerde[K], decode: Callable[[bytes], R]) -> None:
        self._keyspace = keyspace
        self._key = key
        self._decode = decode
        self._encode_key = key.encode
        self._get = keyspace.get

    @property
    def name(self) -> str:
        """The store's name."""
        return self._keyspace.name

    def get(self, key: K) -> R | None:
        """Return the value of a key, or None. What is returned is the caller's own: changing it changes no state."""
        data = self._get(self._encode_key(key))
        return None if data is None else self._decode(data)

    def range(self, first: K | None, last: K | None) -> StoreIterator[tuple[K, R]]:
        """Iterate over `(key, value)` from `first` to `last`, both included; None leaves a side open."""
        return self._range(first, last, False)

    def reverse_range(self, first: K | None, last: K | None) -> StoreIterator[tuple[K, R]]:
        """Iterate over the same rows as `range(first, last)`, from the last to the first."""
        return self._range(first, last, True)

    def all(self) -> StoreIterator[tuple[K, R]]:
        """Iterate over all rows in the order of their keys."""
        return self._range(None, None, False)

    def reverse_all(self) -> StoreIterator[tuple[K, R]]:
        """Iterate over all rows from the last key to the first."""
        return self._range(None, None, True)

    def prefix_scan(self, prefix: Any) -> StoreIterator[tuple[K, R]]:
        """Iterate over the rows whose key begins with `prefix`: a str, bytes, or the first elements of a tuple."""
        if prefix is None:
            raise ValueError("a prefix must not be None; all() gives all rows")
        start = self._key.prefix(prefix)
        return self._scan(start, after(start), False)

    def approximate_num_entries(self) -> int:
        """Return the number of rows, which is exact here."""
        data = self._get(META)
        return 0 if data is None else int(_u64.unpack(data)[0])

    def _range(self, first: K | None, last: K | None, reverse: bool) -> StoreIterator[tuple[K, R]]:
        bounds = key_bounds(self._key, first, last, self.name)
        if bounds is None:
            return StoreIterator(iter(()), self._keyspace)
        start, stop = bounds
        return self._scan(start or _FIRST, None if stop is None else stop + b"\0", reverse)

    def _scan(self, start: bytes, stop: bytes | None, reverse: bool) -> StoreIterator[tuple[K, R]]:
        rows = self._keyspace.scan(start, stop, reverse=reverse)
        decode_key, decode = self._key.decode, self._decode
        return StoreIterator(((decode_key(key), decode(data)) for key, data in rows), self._keyspace)


class _Rows(KeyValueReader[K, R]):
    """The writing half that both stores share: rows as bytes, and their number."""

    def __init__(self, keyspace: Keyspace, key: KeySerde[K], decode: Callable[[bytes], R]) -> None:
        super().__init__(keyspace, key, decode)
        self._swap = keyspace.swap
        self._entries = self._committed_entries = super().approximate_num_entries()
        keyspace.before_commit(self._note)

    def approximate_num_entries(self) -> int:
        """Return the number of rows, which is exact here."""
        return self._entries

    def _write(self, key: bytes, data: bytes | None) -> bytes | None:
        old = self._swap(key, data)
        if old is None:
            if data is not None:
                self._entries += 1
        elif data is None:
            self._entries -= 1
        return old

    def _note(self) -> None:
        if self._entries != self._committed_entries:
            self._keyspace.put(META, _u64.pack(self._entries))
            self._committed_entries = self._entries

    def delete(self, key: K) -> R | None:
        """Remove a key, and return what it had."""
        old = self._write(self._encode_key(key), None)
        return None if old is None else self._decode(old)


class KeyValueStore(_Rows[K, V]):
    """One value a key."""

    def __init__(self, keyspace: Keyspace, key: KeySerde[K], value: ValueSerde[V]) -> None:
        super().__init__(keyspace, key, value.decode)
        self._encode = value.encode

    def put(self, key: K, value: V | None) -> None:
        """Set the value of a key; None removes it."""
        old = self._swap(self._encode_key(key), data := None if value is None else self._encode(value))
        if (old is None) is not (data is None):
            self._entries += 1 if old is None else -1

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Set the value of a key that has none, and return None; else change nothing, and return its value."""
        encoded = self._encode_key(key)
        old = self._get(encoded)
        if old is not None:
            return self._decode(old)
        if value is not None:
            self._write(encoded, self._encode(value))
        return None

    def put_all(self, entries: Iterable[tuple[K, V | None]] | Mapping[K, V | None]) -> None:
        """Set many; all are encoded before the first is written. The last entry of a key counts, None removes."""
        pairs: Any = entries.items() if isinstance(entries, Mapping) else entries
        encode = self._encode
        rows = [(self._encode_key(key), None if value is None else encode(value)) for key, value in pairs]
        for key, data in rows:
            self._write(key, data)


class TimestampedKeyValueStore(_Rows[K, ValueAndTimestamp[V]]):
    """One value a key, with the time of the record that wrote it. Deletions have no time."""

    def __init__(self, keyspace: Keyspace, key: KeySerde[K], value: ValueSerde[V]) -> None:
        super().__init__(keyspace, key, decode_timestamped(value))
        self._value = value
        self._encode = value.encode

    def put(self, key: K, value: V | None, timestamp: Time) -> None:
        """Set the value of a key; None removes it."""
        old = self._swap(self._encode_key(key), data := None if value is None else self._row(value, timestamp))
        if (old is None) is not (data is None):
            self._entries += 1 if old is None else -1

    def _row(self, value: V, timestamp: Time) -> bytes:
        return _i64.pack(to_milliseconds(timestamp)) + self._encode(value)

    def put_if_absent(self, key: K, value: V | None, timestamp: Time) -> ValueAndTimestamp[V] | None:
        """Set the value of a key that has none, and return None; else change nothing, and return what it has."""
        encoded = self._encode_key(key)
        old = self._get(encoded)
        if old is not None:
            return self._decode(old)
        if value is not None:
            self._write(encoded, self._row(value, timestamp))
        return None

    def put_if_different(self, key: K, value: V | None, timestamp: Time) -> bool:
        """Set the value unless its bytes are there already with an earlier time; tell whether it was written.

        An equal or smaller time is written: a record out of order may pull the time back.
        """
        encoded = self._encode_key(key)
        old = self._get(encoded)
        new = None if value is None else self._row(value, timestamp)
        if old is None or new is None:
            if old is new:
                return False
        elif old[8:] == new[8:] and _i64.unpack_from(new) > _i64.unpack_from(old):
            return False
        self._write(encoded, new)
        return True

    def put_all(self, entries: Iterable[tuple[K, V | None, Time]]) -> None:
        """Set many `(key, value, timestamp)`; all are encoded before the first is written."""
        row = self._row
        rows = [(self._encode_key(key), None if value is None else row(value, at)) for key, value, at in entries]
        for key, data in rows:
            self._write(key, data)

    def plain(self) -> KeyValueReader[K, V]:
        """Return this store read without timestamps."""
        decode = self._value.decode
        return KeyValueReader(self._keyspace, self._key, lambda data: decode(data[8:]))


def decode_timestamped(value: ValueSerde[V]) -> Callable[[bytes], ValueAndTimestamp[V]]:
    """Return how a row `timestamp i64, value` is decoded."""
    decode, timestamp_of = value.decode, _i64.unpack_from

    def decode_row(data: bytes) -> ValueAndTimestamp[V]:
        return ValueAndTimestamp(decode(data[8:]), timestamp_of(data)[0])

    return decode_row
