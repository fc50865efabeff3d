"""One database per task: all stores of a partition in one sorted map of bytes, so one write commits them together.

    00 00 d            who this is: layout version, and the task's identity (job, partition, partitions, format)
    00 00 k name       a keyspace: its number, and its identity (kind of store, serdes, settings)
    number u16, key    the rows of that keyspace

Commit: (1) each store writes its notes (observed time, counters, what has expired); (2) all pending rows become one list
of operations; (3) the engine applies the list, all or nothing; (4) only then are the rows no longer pending. The list is
returned, as standbys `apply` the same one. If (3) fails, everything is as before, and the task may be closed or discarded.

A crash is `discard`: pending rows are gone, all keyspaces are closed, and stores are made anew over new ones.
Keyspaces whose name begins with "_" are for the cluster layer (positions, cursors, outbox).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from raystreams.stores.errors import ClosedStoreError, StoreError, StoreMismatchError
from raystreams.stores.leveldb import LevelDBEngine, LevelDBSettings
from raystreams.stores.memory import MemoryEngine
from raystreams.stores.overlay import CommittedKeyspace, OverlaidKeyspace, ResidentKeyspace
from raystreams.stores.plain import decode_plain, encode_plain
from raystreams.stores.protocols import Engine, Operation, Snapshot
from raystreams.stores.serdes import difference

LAYOUT = 1
"""Version of the layout of all rows. Another one on disk is refused: there is no silent conversion."""

_CATALOG = b"\x00\x00"
_WHO = _CATALOG + b"d"
_KEYSPACE = b"k"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """Memory that a task's stores may take: `cache_bytes` for each store's rows, the rest for LevelDB itself."""

    cache_bytes: int = 16 << 20
    leveldb: LevelDBSettings = field(default_factory=LevelDBSettings)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A keyspace that the database has: its number, and what it was made for."""

    number: int
    identity: Mapping[str, Any]


class TaskDatabase:
    """All rows of a task, in LevelDB at a path, or in a `MemoryEngine` without one."""

    def __init__(self, engine: Engine, where: str, settings: DatabaseSettings) -> None:
        self.where = where
        self._engine = engine
        self._settings = settings
        self._open: dict[str, OverlaidKeyspace | ResidentKeyspace] = {}
        self._identity: dict[str, Any] = {"layout": LAYOUT}
        self._first: list[Operation] = []
        self._closed = False
        self.catalog: dict[str, CatalogEntry] = {}
        self._read_catalog()

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | None,
        identity: Mapping[str, Any],
        *,
        settings: DatabaseSettings | None = None,
        engine: MemoryEngine | None = None,
    ) -> TaskDatabase:
        """Open or make the database of a task.

        What is there must have the same identity: otherwise StoreMismatchError names the difference. StateLockedError if
        another process has it open, CorruptedStoreError if files are damaged.
        """
        settings = settings or DatabaseSettings()
        if path is None:
            database = cls(engine or MemoryEngine(), "memory", settings)
        else:
            if engine is not None:
                raise ValueError("a database is at a path or in an engine's memory, not both")
            database = cls(LevelDBEngine(Path(path), settings.leveldb), str(path), settings)
        try:
            database._identity |= identity
            database._check_identity()
        except BaseException:
            database.close()
            raise
        return database

    def _read_catalog(self) -> None:
        self.catalog = {
            row[len(_KEYSPACE) :].decode(): CatalogEntry(*decode_plain(entry))
            for row, entry in self._engine.scan(_CATALOG, _KEYSPACE, b"l")
        }

    def _check_identity(self) -> None:
        wanted = self._identity
        stored = self._engine.get(_WHO)
        if stored is None:
            self._first.append((_WHO, encode_plain(wanted)))
            return
        for what, was in decode_plain(stored).items():
            if was != wanted.get(what):
                raise StoreMismatchError(f"the state in {self.where}", what, was, wanted.get(what))

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever committed here."""
        return bool(self._first)

    def keyspace(
        self, name: str, *, identity: Mapping[str, Any] | None = None, in_memory: bool = False, formerly: str | None = None
    ) -> OverlaidKeyspace | ResidentKeyspace:
        """Open the rows of a store; `formerly` is the name that it had before, and is taken over.

        What is there must have the same identity; a StoreMismatchError names the difference. Values may gain fields with
        defaults and lose fields. The rows of a store that is `in_memory` are all loaded now, and kept.
        """
        self._check_open()
        if name in self._open:
            if identity:
                raise StoreError(f"store {name!r} is open already: a store has one writer")
            return self._open[name]
        entry = self._entry(name, dict(identity or {}), formerly)
        prefix = entry.number.to_bytes(2, "big")
        opened: OverlaidKeyspace | ResidentKeyspace
        if in_memory:
            opened = ResidentKeyspace(name, prefix, self._engine)
        else:
            opened = OverlaidKeyspace(name, prefix, self._engine, self._settings.cache_bytes)
        self._open[name] = opened
        return opened

    def _entry(self, name: str, identity: dict[str, Any], formerly: str | None) -> CatalogEntry:
        if formerly is not None and name not in self.catalog and formerly in self.catalog:
            if formerly in self._open:
                raise StoreError(f"store {name!r} was formerly {formerly!r}, which this topology still has")
            self.catalog[name] = self.catalog.pop(formerly)
            self._first += [(_row_of(formerly), None), self._catalog_row(name)]
        found = self.catalog.get(name)
        if found is None:
            number = 1 + max((entry.number for entry in self.catalog.values()), default=0)
            if number > 0xFFFF:
                raise StoreError(f"the state in {self.where} has 65,535 stores; make it anew")
            found = self.catalog[name] = CatalogEntry(number, identity)
            self._first.append(self._catalog_row(name))
        elif found.identity != identity:
            compare_identities(f"store {name!r} in {self.where}", found.identity, identity)
            found = self.catalog[name] = CatalogEntry(found.number, identity)
            self._first.append(self._catalog_row(name))
        return found

    def _catalog_row(self, name: str) -> Operation:
        entry = self.catalog[name]
        return _row_of(name), encode_plain([entry.number, dict(entry.identity)])

    @property
    def uncommitted_bytes(self) -> int:
        """About how many bytes of rows wait for the next commit; overwritten ones count each time."""
        return sum(keyspace.pending_bytes for keyspace in self._open.values())

    def commit(self, *, sync: bool = False) -> list[Operation]:
        """Make everything since the last commit durable in one write, and return it. With `sync`, also against power cuts.

        If it raises, nothing was stored and nothing is forgotten.
        """
        self._check_open()
        for keyspace in self._open.values():
            keyspace.prepare()
        operations = list(self._first)
        for keyspace in self._open.values():
            operations += keyspace.operations()
        if operations:
            self._engine.write(operations, sync=sync)
            self._first.clear()
            for keyspace in self._open.values():
                keyspace.committed()
        return operations

    def apply(self, operations: list[Operation], *, sync: bool = False) -> None:
        """Apply the commit of another database, of which this one is a standby; no keyspace may be open here."""
        self._check_open()
        if self._open:
            raise StoreError(f"{self.where} has open stores ({', '.join(self._open)}): a standby has none")
        self._engine.write(operations, sync=sync)
        self._first.clear()
        if any(key.startswith(_CATALOG) for key, _ in operations):
            self._read_catalog()

    def read_committed(self, name: str) -> CommittedKeyspace:
        """Return the committed rows of a store as they are now, for queries from any thread. Close it after use."""
        self._check_open()
        entry = self.catalog.get(name)
        if entry is None:
            known = ", ".join(self.store_names()) or "none"
            raise StoreError(f"no store {name!r} in {self.where}; there are: {known}")
        return CommittedKeyspace(name, entry.number.to_bytes(2, "big"), self._engine.snapshot())

    def rows(self) -> AllRows:
        """All committed rows as they are now, to be copied; readable from any thread. Close it after use."""
        self._check_open()
        return AllRows(self._engine.snapshot())

    def store_names(self) -> list[str]:
        """Return the names of all stores, without the cluster layer's own keyspaces."""
        return sorted(name for name in self.catalog if not name.startswith("_"))

    def drop(self, name: str) -> None:
        """Remove a store that no topology has any more, with its rows, at once."""
        self._check_open()
        if name in self._open:
            raise StoreError(f"store {name!r} is open and can't be dropped")
        entry = self.catalog.pop(name, None)
        if entry is None:
            return
        prefix = entry.number.to_bytes(2, "big")
        rows: list[Operation] = [(prefix + key, None) for key, _ in self._engine.scan(prefix, None, None)]
        self._engine.write([*rows, (_row_of(name), None)], sync=True)

    def verify(self) -> int:
        """Read every row with its checksum, and return their number; CorruptedStoreError at the first damage."""
        self._check_open()
        return sum(1 for _ in self._engine.scan(b"", None, None))

    def discard(self) -> None:
        """Lose everything uncommitted and close all keyspaces, as a crash does. Make stores anew after it."""
        self._close_keyspaces()
        self._first.clear()
        self._read_catalog()
        self._check_identity()

    def close(self) -> None:
        """Close files and keyspaces without a commit; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close_keyspaces()
            self._engine.close()

    def _close_keyspaces(self) -> None:
        for keyspace in self._open.values():
            keyspace.close()
        self._open.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedStoreError(f"the database in {self.where}")

    def __enter__(self) -> TaskDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class AllRows:
    """All rows of a database at one moment, in parts that `apply` takes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._rows = snapshot.scan(b"", None, None)

    def part(self, most_bytes: int) -> list[Operation]:
        """Return the next rows, of about so many bytes; none at the end."""
        part: list[Operation] = []
        size = 0
        for key, value in self._rows:
            part.append((key, value))
            size += len(key) + len(value)
            if size >= most_bytes:
                break
        return part

    def close(self) -> None:
        """Let go of the snapshot."""
        self._snapshot.close()


def compare_identities(where: str, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise StoreMismatchError for the first difference that makes stored rows unreadable or change their meaning."""
    for what in {**stored, **wanted}:
        was, now = stored.get(what), wanted.get(what)
        if was == now:
            continue
        if what == "value" and isinstance(was, str) and isinstance(now, str):
            text = difference(was, now)
            if text is None:
                continue
            raise StoreMismatchError(where, f"another value type ({text}):", was, now)
        raise StoreMismatchError(where, what, was, now)


def _row_of(name: str) -> bytes:
    return _CATALOG + _KEYSPACE + name.encode()
