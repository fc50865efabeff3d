"""Versions of keys as rows of bytes: what versioned stores and versioned indexes are made of (KIP-889, KIP-914).

    00                               observed time, u64
    L key                            kind, timestamp, value            the latest version, a value or a tombstone
    H key, ~timestamp                kind, valid_to, value             every older version, newest first
    X bucket, key                    (empty)                           look at this key once its bucket is past

Times are u64, big-endian; `~t` is t turned over, so that a scan goes from new to old. Kind is 0 for a value, 1 for a tombstone.

The rows of a key are an unbroken chain: each H row ends where the next version begins, the newest where L begins. So the
version of a time is one seek in H, and its successor is where it ends. Because L holds a latest tombstone too, a key without L
has no versions at all, and a put never has to seek to find that out.

Kafka keeps versions in segments by their end, and joins them with repairs after a crash. Here one batch commits all rows, there
are no segments, and `segment_interval` is only the width of an expiry bucket: how late dead rows are deleted. Nobody sees
that, as reads never look behind the retention (spec 4.2), whatever is still there.

The newest H rows of keys that are in use are kept in memory (`_Recent`), so that neither an as-of read a little behind the latest
nor a put a little out of order needs a LevelDB iterator, which costs 3 to 20 us.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

import msgspec
from raystreams.stores.keys import after
from raystreams.stores.protocols import META, Keyspace
from raystreams.stores.values import PUT_LATEST, PUT_REFUSED

VALUE, TOMBSTONE = 0, 1

_LATEST, _HISTORY, _EXPIRY = b"L", b"H", b"X"
_HEAD = 9
_ONES = 2**64 - 1

_head = struct.Struct(">BQ")
_u64 = struct.Struct(">Q")

_RECENT_VERSIONS = 8
"""How many versions of a key are kept in memory after a read; up to twice as many after puts."""

_ROW_SIZE = 250
"""About what such a version takes; all of them together take what the keyspace allows for a cache."""

_NOTHING_BEFORE = (-1, b"")
"""Begins what is kept of a key of which all rows are kept."""

_EXPIRED_KEYS_PER_COMMIT = 10_000
"""Bounds what a commit deletes; at least as many keys are looked at as were written."""


class Version(msgspec.Struct, frozen=True):
    """A version as bytes; `data` is None for a tombstone, `valid_to` for the latest."""

    data: bytes | None
    timestamp: int
    valid_to: int | None


class _Recent:
    """The newest H rows of some keys as `(began, row)`, oldest first: all that began at the first of them or later."""

    __slots__ = ("_most", "_rows", "chains")

    def __init__(self, most: int) -> None:
        self.chains: dict[bytes, list[tuple[int, bytes]]] = {}
        self._rows = 0
        self._most = most

    def add(self, key: bytes, began: int, row: bytes) -> None:
        """Take notice that the latest version became history."""
        chain = self.chains.get(key)
        if chain is None:
            self.chains[key] = [(began, row)]
        else:
            chain.append((began, row))
            if len(chain) > 2 * _RECENT_VERSIONS:
                del chain[:_RECENT_VERSIONS]
                self._rows -= _RECENT_VERSIONS
        self._count(1)

    def keep(self, key: bytes, chain: list[tuple[int, bytes]]) -> None:
        """Keep what was read of a key."""
        self._rows -= len(self.chains.get(key, ()))
        self.chains[key] = chain
        self._count(len(chain))

    def _count(self, rows: int) -> None:
        self._rows += rows
        if self._rows > self._most:
            self.chains.clear()
            self._rows = 0

    def insert(self, key: bytes, began: int, row: bytes) -> None:
        """Put a row, or replace the one that began then, if it lies within what is kept."""
        chain = self.chains.get(key)
        if chain is None or began < chain[0][0]:
            return
        at = bisect_left(chain, (began,))
        if at < len(chain) and chain[at][0] == began:
            chain[at] = (began, row)
        else:
            chain.insert(at, (began, row))
            self._count(1)


class VersionRows:
    """All versions of all keys of a store, within its history retention.

    Keys are encoded: none is the beginning of another.
    """

    def __init__(self, keyspace: Keyspace, retention: int, bucket: int) -> None:
        self._keyspace = keyspace
        self._retention, self._bucket = retention, bucket
        self._get, self._put, self._write = keyspace.get, keyspace.put, keyspace.write
        self._recent = _Recent((keyspace.cache_bytes or 1 << 20) // _ROW_SIZE)
        noted = keyspace.get(META)
        self.observed = -1 if noted is None else _u64.unpack(noted)[0]
        self._noted = self.observed
        self._written = 0
        self._swept, self._past = 0, self._cut()
        self.dropped = 0
        keyspace.before_commit(self._note)

    @property
    def name(self) -> str:
        """The store's name."""
        return self._keyspace.name

    def put(self, key: bytes, data: bytes | None, timestamp: int) -> int:
        """Store a version, a tombstone for None; return where it ends, PUT_LATEST, or PUT_REFUSED."""
        if timestamp < self.observed - self._retention or timestamp < 0:
            self.dropped += 1
            return PUT_REFUSED
        if timestamp > self.observed:
            self.observed = timestamp
        latest_key = b"L" + key
        row = _head.pack(TOMBSTONE, timestamp) if data is None else _head.pack(VALUE, timestamp) + data
        latest = self._get(latest_key)
        if latest is not None:
            kind, began = _head.unpack_from(latest)
            if timestamp < began:
                return self._put_history(key, row, timestamp, began)
            if timestamp > began:
                older = _head.pack(kind, timestamp) + latest[_HEAD:]
                self._write(b"H%b%b" % (key, _u64.pack(_ONES - began)), older)
                self._recent.add(key, began, older)
                self._expire_at(timestamp, key)
        if data is None:
            self._expire_at(timestamp, key)
        self._put(latest_key, row)
        return PUT_LATEST

    def _expire_at(self, time: int, key: bytes) -> None:
        self._write(b"X%b%b" % (_u64.pack(time // self._bucket), key), b"")
        self._written += 1

    def _put_history(self, key: bytes, row: bytes, timestamp: int, latest: int) -> int:
        """Put a version below the latest: into the one that is valid then, or before the first."""
        below = self._at_or_before(key, timestamp)
        if below is None:
            valid_to = self._first_after(key, timestamp, latest)
            self._expire_at(valid_to, key)
        else:
            began, found = below
            kind, valid_to = _head.unpack_from(found)
            if began < timestamp:
                self._write_history(key, began, _head.pack(kind, timestamp) + found[_HEAD:])
                self._expire_at(timestamp, key)
        self._write_history(key, timestamp, _head.pack(row[0], valid_to) + row[_HEAD:])
        return valid_to

    def _write_history(self, key: bytes, began: int, row: bytes) -> None:
        self._write(b"H%b%b" % (key, _u64.pack(_ONES - began)), row)
        self._recent.insert(key, began, row)

    def _at_or_before(self, key: bytes, time: int) -> tuple[int, bytes] | None:
        """Return the newest H row that began at `time` or earlier."""
        chain = self._recent.chains.get(key)
        if chain is None or (chain[0][0] > time and len(chain) < _RECENT_VERSIONS):
            chain = self._read_recent(key)
        if chain[0][0] <= time:
            for found in reversed(chain):
                if found[0] <= time:
                    return found if found is not _NOTHING_BEFORE else None
        history = _HISTORY + key
        for row_key, row in self._keyspace.scan(history + _u64.pack(_ONES - time), after(history)):
            return _ONES - _u64.unpack(row_key[-8:])[0], row
        return None

    def _read_recent(self, key: bytes) -> list[tuple[int, bytes]]:
        history = _HISTORY + key
        rows = islice(self._keyspace.scan(history, after(history)), _RECENT_VERSIONS)
        chain = [(_ONES - _u64.unpack(row_key[-8:])[0], row) for row_key, row in rows]
        if len(chain) < _RECENT_VERSIONS:
            chain.append(_NOTHING_BEFORE)
        chain.reverse()
        self._recent.keep(key, chain)
        return chain

    def _first_after(self, key: bytes, time: int, latest: int) -> int:
        """Return when the oldest version after `time` begins, where no H row began at `time` or earlier."""
        chain = self._recent.chains.get(key)
        if chain is not None and chain[0] is _NOTHING_BEFORE:
            return chain[1][0] if len(chain) > 1 else latest
        history = _HISTORY + key
        for row_key, _ in self._keyspace.scan(history, history + _u64.pack(_ONES - time), reverse=True):
            began: int = _ONES - _u64.unpack(row_key[-8:])[0]
            return began
        return latest

    def latest(self, key: bytes) -> Version | None:
        """Return the latest version, which may be a tombstone; no retention hides it."""
        row = self._get(b"L" + key)
        if row is None:
            return None
        kind, began = _head.unpack_from(row)
        return Version(None if kind else row[_HEAD:], began, None)

    def at(self, key: bytes, time: int) -> Version | None:
        """Return the value that is valid at a time, by the order of spec 4.2: the latest first, then the retention."""
        row = self._get(b"L" + key)
        if row is None:
            return None
        kind, began = _head.unpack_from(row)
        if began <= time:
            return None if kind else Version(row[_HEAD:], began, None)
        if time < self.observed - self._retention or time < 0:
            return None
        below = self._at_or_before(key, time)
        if below is None:
            return None
        began, row = below
        kind, valid_to = _head.unpack_from(row)
        return None if kind else Version(row[_HEAD:], began, valid_to)

    def delete(self, key: bytes, timestamp: int) -> Version | None:
        """Put a tombstone, and return the value that was valid then."""
        if timestamp < self.observed - self._retention:
            self.dropped += 1
            return None
        old = self.at(key, timestamp)
        self.put(key, None, timestamp)
        return old

    def neighbours(self, key: bytes, time: int) -> tuple[Version | None, Version | None, Version | None]:
        """Return the versions before, at and after a time, tombstones too; what has been deleted as expired is None."""
        latest = self.latest(key)
        if latest is None:
            return None, None, None
        if latest.timestamp < time:
            return latest, None, None
        if latest.timestamp == time:
            return self._version(self._at_or_before(key, time - 1)), latest, None
        below = self._version(self._at_or_before(key, time))
        if below is None:
            return None, None, self._beginning(key, self._first_after(key, time, latest.timestamp), latest)
        following = self._beginning(key, below.valid_to, latest)
        if below.timestamp < time:
            return below, None, following
        return self._version(self._at_or_before(key, time - 1)), below, following

    def _beginning(self, key: bytes, time: int | None, latest: Version) -> Version | None:
        """Return the version that begins at a time."""
        if time is None or time == latest.timestamp:
            return latest
        return self._version(self._at_or_before(key, time))

    @staticmethod
    def _version(found: tuple[int, bytes] | None) -> Version | None:
        if found is None:
            return None
        kind, valid_to = _head.unpack_from(found[1])
        return Version(None if kind else found[1][_HEAD:], found[0], valid_to)

    def history(self, key: bytes, start: int, end: int, *, reverse: bool) -> Iterator[Version]:
        """Return the values that were valid at any time of `[start, end]`, as they are now (KIP-968).

        Oldest first, or newest first with `reverse`. History that is past the retention is never given.
        """
        latest = self.latest(key)
        history = _HISTORY + key
        first = max(start, self.observed - self._retention, 0)
        newest = [latest] if latest is not None and latest.data is not None and latest.timestamp <= end else []
        if end < 0:
            return iter(newest)
        from_newest = history + _u64.pack(_ONES - end)
        if reverse:
            older = self._keyspace.scan(from_newest, after(history))
            return _newest_first(newest, older, first)
        below = self._at_or_before(key, first)
        began = first if below is None else below[0]
        older = self._keyspace.scan(from_newest, history + _u64.pack(_ONES - began) + b"\0", reverse=True)
        return _oldest_first(newest, older, first)

    def latest_rows(self, prefix: bytes) -> Iterator[tuple[bytes, Version]]:
        """Yield `(key, latest version)` of all keys that begin with some bytes, tombstones too, in order."""
        for key, row in self._keyspace.scan(_LATEST + prefix, after(_LATEST + prefix)):
            kind, began = _head.unpack_from(row)
            yield key[1:], Version(None if kind else row[_HEAD:], began, None)

    # ---- at commits ---------------------------------------------------------------------------------------------

    def _note(self) -> None:
        if self.observed != self._noted:
            self._keyspace.put(META, _u64.pack(self.observed))
            self._noted = self.observed
            self._expire(max(_EXPIRED_KEYS_PER_COMMIT, 2 * self._written))
            self._written = 0

    def _cut(self) -> int:
        return max(self.observed - self._retention, 0)

    def _expire(self, most: int) -> None:
        """Delete versions that ended before `_past`, the oldest time that could be put at the commit before.

        Of keys whose bucket lies wholly before it: nothing newer can be in such a bucket, so what is pending need not be
        looked at.
        """
        write, past = self._write, self._past
        end = past // self._bucket
        for number, (expiry, _) in enumerate(
            self._keyspace.scan_committed(_EXPIRY + _u64.pack(self._swept), _EXPIRY + _u64.pack(end))
        ):
            if number == most:
                break
            write(expiry, None)
            key = expiry[9:]
            latest = self.latest(key)
            if latest is not None and latest.data is None and latest.timestamp < past:
                self._keyspace.delete(_LATEST + key)
                self._recent.chains.pop(key, None)
            history = _HISTORY + key
            for dead, row in self._keyspace.scan_committed(history + _u64.pack(_ONES - past), history + b"\xff" * 9):
                if _head.unpack_from(row)[1] < past:
                    write(dead, None)
        else:
            self._swept = end
        self._past = self._cut()


def _newest_first(newest: list[Version], older: Iterator[tuple[bytes, bytes]], first: int) -> Iterator[Version]:
    yield from newest
    for key, row in older:
        kind, valid_to = _head.unpack_from(row)
        if valid_to <= first:
            return
        if kind == VALUE:
            yield Version(row[_HEAD:], _ONES - _u64.unpack(key[-8:])[0], valid_to)


def _oldest_first(newest: list[Version], older: Iterator[tuple[bytes, bytes]], first: int) -> Iterator[Version]:
    for key, row in older:
        kind, valid_to = _head.unpack_from(row)
        if kind == VALUE and valid_to > first:
            yield Version(row[_HEAD:], _ONES - _u64.unpack(key[-8:])[0], valid_to)
    yield from newest
