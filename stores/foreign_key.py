"""Rows that are found by a foreign key: subscriptions of foreign-key joins, and indexes of tables by a column (KIP-955).

    F length of foreign key u32, foreign key, primary key         payload

Both keys are bytes. The length in front keeps foreign keys apart, whatever bytes are in them (a scan for "key" must not find
"key2"); the rows of one foreign key come in the order of their primary keys' bytes.

The index of a versioned table has a history for each pair: a row that moves to another foreign key leaves a tombstone at the
old one, so the rows of a foreign key can be asked for as they were.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from raystreams.stores.keys import after, escape, unescape
from raystreams.stores.protocols import Keyspace
from raystreams.stores.version_rows import VersionRows

_u32 = struct.Struct(">I").pack


def _beginning(foreign_key: bytes) -> bytes:
    return b"F%b%b" % (_u32(len(foreign_key)), foreign_key)


class ForeignKeyIndex:
    """Payloads by foreign key and primary key."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace

    def put(self, foreign_key: bytes, primary_key: bytes, payload: bytes) -> None:
        """Set the payload of a pair."""
        self._keyspace.put(_beginning(foreign_key) + primary_key, payload)

    def get(self, foreign_key: bytes, primary_key: bytes) -> bytes | None:
        """Return the payload of a pair, or None."""
        return self._keyspace.get(_beginning(foreign_key) + primary_key)

    def delete(self, foreign_key: bytes, primary_key: bytes) -> None:
        """Remove a pair; nothing happens if it isn't there."""
        self._keyspace.delete(_beginning(foreign_key) + primary_key)

    def scan(self, foreign_key: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(primary key, payload)` of a foreign key, by primary key; later writes do not show."""
        beginning = _beginning(foreign_key)
        cut = len(beginning)
        rows = self._keyspace.scan(beginning, after(beginning))
        return ((row[cut:], payload) for row, payload in rows)


class SubscriptionStore(ForeignKeyIndex):
    """Who wants to know about a foreign key: the right side's memory in a foreign-key join of tables (KIP-213)."""


class VersionedForeignKeyIndex:
    """Rows by foreign key and primary key, at any time within the history retention."""

    def __init__(self, keyspace: Keyspace, *, history_retention: int, segment_interval: int) -> None:
        self._rows = VersionRows(keyspace, history_retention, segment_interval)

    @property
    def observed(self) -> int:
        """The largest timestamp that was put, -1 before the first."""
        return self._rows.observed

    def put(self, foreign_key: bytes, primary_key: bytes, row: bytes | None, timestamp: int) -> int:
        """Store a version of a pair, None as the time from which it isn't there; returns what a versioned store's put does."""
        return self._rows.put(_beginning(foreign_key) + escape(primary_key), row, timestamp)

    def scan(self, foreign_key: bytes, as_of: int | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yield `(primary key, row)` of a foreign key as it was at a time, or is now, by primary key."""
        beginning = _beginning(foreign_key)
        cut = len(beginning)
        for key, version in self._rows.latest_rows(beginning):
            if as_of is not None and version.timestamp > as_of:
                found = self._rows.at(key, as_of)
                data = None if found is None else found.data
            else:
                data = version.data
            if data is not None:
                yield unescape(key, cut)[0], data
