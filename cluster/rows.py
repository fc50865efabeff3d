"""What a task keeps beside its stores, in the same database and so in the same commit.

    _task    positions and tops of splits, cursors and numbers of edges, clocks, cells, counters, ends: small rows by name
    _outbox  runs that a peer has not committed, by (channel, peer, first number)
    _self    waiting records of self-edges, by (channel, first number)
    _sinks   batches that a sink has not written, by (topic, sequence)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack
from raystreams.stores.database import TaskDatabase
from raystreams.stores.keys import decode_key, encode_key


class Rows:
    """Named rows of plain data in one keyspace; an equal value is not written again."""

    def __init__(self, database: TaskDatabase, keyspace: str) -> None:
        self._rows = database.keyspace(keyspace)
        self._known: dict[tuple[Any, ...], bytes] = {}

    def get(self, *name: Any, default: Any = None) -> Any:
        """The value under a name."""
        data = self._rows.get(encode_key(name))
        if data is None:
            return default
        self._known[name] = data
        return msgpack.unpackb(data, strict_map_key=False)

    def put(self, *name: Any, value: Any) -> None:
        """Set the value under a name, if it is another one."""
        data: bytes = msgpack.packb(value)
        if self._known.get(name) != data:
            self._known[name] = data
            self._rows.put(encode_key(name), data)

    def put_data(self, *name: Any, data: bytes) -> None:
        """Set bytes under a name."""
        self._rows.put(encode_key(name), data)

    def delete(self, *name: Any) -> None:
        """Forget a name."""
        self._known.pop(name, None)
        self._rows.delete(encode_key(name))

    def scan(self) -> Iterator[tuple[tuple[Any, ...], bytes]]:
        """All (name, bytes), in order of their names."""
        for key, data in self._rows.scan(None, None):
            yield decode_key(key), data

    def values(self, *prefix: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """All (name, value) whose names begin so."""
        for name, data in self.scan():
            if name[: len(prefix)] == prefix:
                yield name, msgpack.unpackb(data, strict_map_key=False)


def lineage_of(database: TaskDatabase) -> tuple[int, int]:
    """The epoch and number of a database's last commit; (0, 0) of one that has none. No keyspace needs to be open."""
    if "_task" not in database.catalog:
        return 0, 0
    rows = database.read_committed("_task")
    try:
        data = rows.get(encode_key(("lineage",)))
    finally:
        rows.close()
    epoch, number = (0, 0) if data is None else msgpack.unpackb(data)
    return epoch, number
