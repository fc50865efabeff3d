"""A store's rows, given out anew to another number of partitions.

Every row of a store belongs to a key, and its key's bytes say the partition (`partition_of`). Layouts differ in where the key
stands, and that is all that this file knows of them. What a store notes about itself is made anew: the clock is the latest of
all old partitions, as it would be had their records been in one; entries are counted.

The rows of a processor's store move by its own keys. If they aren't those of its records, a key may turn up in two partitions (a
total for each of them, say); nobody can tell how to make one of both, so that is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import StoreError
from raystreams.stores.keys import WINDOWED, decode_key, partition_of, skip_key, unescape
from raystreams.stores.protocols import META, Keyspace

_u32 = struct.Struct(">I")
_u64 = struct.Struct(">Q")
_i64_u64 = struct.Struct(">qQ")
_two_u64 = struct.Struct(">QQ")

_PENDING_BYTES = 32 << 20

KeyOf = Callable[[bytes], bytes]


def _entry_key(row: bytes) -> bytes:
    return row


def _version_key(row: bytes) -> bytes:
    return {b"L": row[1:], b"H": row[1:-8], b"X": row[9:]}[row[:1]]


def _segment_key(row: bytes) -> bytes:
    return row[9 : skip_key(row, 9)]


def _foreign_key(row: bytes) -> bytes:
    return row[5 : 5 + _u32.unpack_from(row, 1)[0]]


_KEY_OF: Mapping[str, KeyOf] = {
    "key_value": _entry_key,
    "timestamped_key_value": _entry_key,
    "versioned": _version_key,
    "window": _segment_key,
    "timestamped_window": _segment_key,
    "session": _segment_key,
    "subscriptions": _foreign_key,
    "foreign_key_index": _foreign_key,
    "versioned_foreign_key_index": lambda row: _foreign_key(_version_key(row)),
    "time_ordered_buffer": lambda row: unescape(row, 9)[0],
    "suppress_buffer": lambda row: row[1:] if row[:1] == b"K" else row[9:],
    "outer_join_buffer": lambda row: row[10:],
}


def rescale_store(name: str, sources: Sequence[TaskDatabase], targets: Sequence[TaskDatabase], *, copied: bool = False) -> None:
    """Give the committed rows of a store in all `sources` to `targets`, which are new, and commit them there.

    The targets are to be closed and opened again before the store is used. `copied` stores (global tables) are the same in
    each partition, and go to all targets whole.
    """
    having = [database for database in sources if name in database.catalog]
    if not having:
        return
    identity = dict(having[0].catalog[name].identity)
    for database in having[1:]:
        if database.catalog[name].identity != identity:
            raise StoreError(f"store {name!r} is not the same in {having[0].where} and {database.where}")
    keyspaces = [database.keyspace(name, identity=identity) for database in targets]
    if copied:
        for target, keyspace in zip(targets, keyspaces, strict=True):
            _copy(having[0], name, keyspace)
            target.commit()
        return
    key_of = _KEY_OF.get(str(identity.get("kind")))
    if key_of is None:
        raise StoreError(f"store {name!r} is of kind {identity.get('kind')!r}, whose rows can't be given to other partitions")
    notes: list[bytes] = []
    for database in having:
        _spread(database, name, key_of, keyspaces, targets, notes)
    for target, keyspace in zip(targets, keyspaces, strict=True):
        noted = _notes(str(identity["kind"]), notes, keyspace)
        if noted is not None:
            keyspace.put(META, noted)
        target.commit()


def _copy(source: TaskDatabase, name: str, target: Keyspace) -> None:
    for row, data in source.read_committed(name).scan():
        target.write(row, data)


def _spread(
    source: TaskDatabase,
    name: str,
    key_of: KeyOf,
    keyspaces: Sequence[Keyspace],
    targets: Sequence[TaskDatabase],
    notes: list[bytes],
) -> None:
    for row, data in source.read_committed(name).scan():
        if row == META:
            notes.append(data)
            continue
        key = key_of(row)
        # A windowed key lives with its inner key.
        partition = partition_of(key[1:-16] if key[:1] == WINDOWED else key, len(targets))
        if keyspaces[partition].swap(row, data) is not None:
            raise StoreError(
                f"store {name!r} has the key {_shown(key)} in two partitions: its keys are not those of its records, "
                f"and its state can't be given to other partitions"
            )
        if targets[partition].uncommitted_bytes > _PENDING_BYTES:
            targets[partition].commit()


def _shown(key: bytes) -> str:
    return repr(decode_key(key))


def _notes(kind: str, notes: list[bytes], keyspace: Keyspace) -> bytes | None:
    """Return what a store notes about itself, from what the old ones noted and the rows it has now."""
    if kind in ("key_value", "timestamped_key_value"):
        entries = _count(keyspace, b"\x01", None)
        return _u64.pack(entries) if entries else None
    if not notes:
        return None
    if kind in ("versioned", "versioned_foreign_key_index"):
        return max(notes)
    if kind in ("window", "timestamped_window", "session"):
        clocks = [_i64_u64.unpack(note) for note in notes]
        return _i64_u64.pack(max(observed for observed, _ in clocks), max(sequence for _, sequence in clocks))
    if kind == "time_ordered_buffer":
        return _two_u64.pack(max(_two_u64.unpack(note)[0] for note in notes), _count(keyspace, b"B", b"C"))
    if kind == "suppress_buffer":
        rows = [len(row) - 1 + len(data) for row, data in keyspace.scan(b"K", b"L")]
        return _two_u64.pack(len(rows), sum(rows))
    return None


def _count(keyspace: Keyspace, start: bytes, stop: bytes | None) -> int:
    return sum(1 for _ in keyspace.scan(start, stop))


def kinds() -> Sequence[Any]:
    """Return the kinds of stores whose rows can be given to other partitions."""
    return tuple(_KEY_OF)
