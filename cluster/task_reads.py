"""What a task answers to queries: reads of what is committed, on other threads than the task's own.

    read(method of a store)     a value, or the first page of a scan and a cursor
    read(cursor)                the next page; the last one has no cursor
    read(cursor, page=0)        lets go of the scan

Keys and values travel as the store's bytes, so neither side pickles a user's types, and what isn't looked at isn't decoded;
here stores are opened with serdes that do nothing. `describe` tells the client how to encode and decode.

A scan reads one snapshot, which is kept between its pages, and holds on to old rows for as long. So one that isn't asked
for `KEPT` seconds is let go of, and there are at most `SCANS` of them. `close` waits for reads that run: a database must
not be closed under them.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
from raystreams.cluster.errors import NotAvailableError
from raystreams.cluster.partitioned_store import BY_KEY, ROWS
from raystreams.cluster.suggest import did_you_mean
from raystreams.operators.graph import Topology
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.database import TaskDatabase
from raystreams.stores.errors import ClosedStoreError
from raystreams.stores.iterators import StoreIterator
from raystreams.stores.keyvalue import KeyValueReader
from raystreams.stores.serdes import KeySerde, ValueSerde, key_serde, value_serde
from raystreams.stores.session import SessionStore
from raystreams.stores.versioned import VersionedStore
from raystreams.stores.window import WindowReader

KEPT = 30.0
"""Seconds that a scan waits for its next page to be asked for."""

SCANS = 256
"""Scans that may wait at a task; more have to come again."""

PAGE_BYTES = 2 << 20
"""Bytes of values after which a page ends, however few rows it has."""

READERS: dict[str, type] = {
    "key_value": KeyValueReader,
    "timestamped_key_value": KeyValueReader,  # read without timestamps, as windows are
    "versioned": VersionedStore,
    "window": WindowReader,
    "timestamped_window": WindowReader,
    "session": SessionStore,
}
"""Kinds of stores that can be asked, and the class that has their methods; what operators keep for themselves can't."""


def read_methods(kind: str) -> frozenset[str]:
    """Return the methods of a kind of store that can be asked for, `get_many` where there is `get`."""
    reader = READERS[kind]
    names = {name for name in BY_KEY | ROWS | {"approximate_num_entries"} if hasattr(reader, name)}
    return frozenset(names | {"get_many"} if "get" in names else names)


class Description(msgspec.Struct, frozen=True):
    """What a client has to know of a store; `key` and `value` describe types as a database's identity does."""

    kind: str
    key: str
    value: str
    settings: dict[str, Any]
    partitions: int
    is_global: bool


class ReadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A method of a store with its arguments, keys encoded and times in milliseconds; or the cursor of a scan."""

    store: str = ""
    method: str = ""
    args: dict[str, Any] = {}
    page: int = 1000
    cursor: str | None = None


class ReadResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A value, or a page of rows, with a cursor if there may be more."""

    value: Any = None
    rows: list[Any] | None = None
    cursor: str | None = None


class _Scan:
    """Rows of a snapshot that are still to be given."""

    def __init__(self, keyspace: Any, rows: Any) -> None:
        self._keyspace, self._rows = keyspace, rows
        self.expires = 0.0

    def page(self, most: int) -> tuple[list[Any], bool]:
        """Return the next rows, and whether there are more."""
        page: list[Any] = []
        size = 0
        for row in self._rows:
            page.append(row)
            size += len(row[1] if isinstance(row, tuple) else row.value)
            if len(page) >= most or size >= PAGE_BYTES:
                break
        try:
            self._rows.peek()
        except LookupError:
            return page, False
        return page, True

    def close(self) -> None:
        """Let go of the snapshot."""
        self._rows.close()
        self._keyspace.close()


class TaskReads:
    """Answers read requests on any thread. `database_of` raises NotAvailableError while the task has none to read."""

    def __init__(
        self,
        topology: Topology,
        database_of: Callable[[], TaskDatabase],
        *,
        partitions: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topology, self._database_of, self._partitions, self._clock = topology, database_of, partitions, clock
        self._builders: dict[str, StoreBuilder[Any]] = {}
        self._scans: dict[str, _Scan] = {}
        self._numbers = itertools.count()
        self._token = secrets.token_hex(4)  # a cursor of the task that was here before must not be taken for one of ours
        self._idle = threading.Condition()
        self._running, self._closed = 0, False

    def read(self, request: ReadRequest) -> ReadResponse:
        """Answer; NotAvailableError if that isn't possible now, ValueError for a store or method that there is not."""
        with self._reading():
            self.expire()
            try:
                if request.cursor is not None:
                    return self._next_page(request.cursor, request.page)
                return self._answer(request)
            except ClosedStoreError as error:
                raise NotAvailableError(f"the task has closed its state: {error}", True) from error

    def expire(self) -> None:
        """Let go of scans that nobody goes on with. The task calls it now and then, as reads may not come."""
        now = self._clock()
        with self._idle:
            late = [cursor for cursor, scan in self._scans.items() if scan.expires <= now]
            gone = [self._scans.pop(cursor) for cursor in late]
        for scan in gone:
            scan.close()

    def close(self) -> None:
        """Refuse reads from now on, wait for those that run, and let go of all scans; then the database may be closed."""
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: self._running == 0)
            scans = list(self._scans.values())
            self._scans.clear()
        for scan in scans:
            scan.close()

    @property
    def open_scans(self) -> int:
        """Scans that wait for their next page to be asked for."""
        return len(self._scans)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._idle:
            if self._closed:
                raise NotAvailableError("the task is being closed", True)
            self._running += 1
        try:
            yield
        finally:
            with self._idle:
                self._running -= 1
                self._idle.notify_all()

    def _answer(self, request: ReadRequest) -> ReadResponse:
        builder = self._builder(request.store)
        if request.method == "describe":
            return ReadResponse(value=self._describe(request.store))
        if request.method not in read_methods(builder.kind):
            raise ValueError(f"the store {request.store!r} ({builder.kind}) can't be asked for {request.method!r}")
        database = self._database_of()
        if request.store not in database.catalog:  # a standby to which no commit came yet
            raise NotAvailableError(f"the store {request.store!r} has not been committed here yet", True)
        keyspace = database.read_committed(request.store)
        kept = False
        try:
            store = builder.over(keyspace)
            store = store.plain() if hasattr(store, "plain") else store
            if request.method == "get_many":
                return ReadResponse(value=[store.get(key) for key in request.args["keys"]])
            found = getattr(store, request.method)(**request.args)
            if not isinstance(found, StoreIterator):
                return ReadResponse(value=found)
            kept = True
            return self._page(_Scan(keyspace, found), request.page, None)
        finally:
            if not kept:
                keyspace.close()

    def _next_page(self, cursor: str, most: int) -> ReadResponse:
        with self._idle:
            scan = self._scans.pop(cursor, None)  # none other has it while it is read
        if most < 1:
            if scan is not None:
                scan.close()
            return ReadResponse()
        if scan is None:
            text = f"this scan was let go of: its next page was not asked for within {KEPT:g} s, or its task has moved"
            raise NotAvailableError(f"{text}. Ask again from the start", True)
        return self._page(scan, most, cursor)

    def _page(self, scan: _Scan, most: int, cursor: str | None) -> ReadResponse:
        kept = False
        try:
            rows, kept = scan.page(most)
            if kept:
                kept = False
                cursor = self._keep(cursor, scan)
                kept = True
            return ReadResponse(rows=rows, cursor=cursor if kept else None)
        finally:
            if not kept:
                scan.close()

    def _keep(self, cursor: str | None, scan: _Scan) -> str:
        """Keep a scan for its next page; a new one is refused where too many wait, one that has begun is not."""
        scan.expires = self._clock() + KEPT
        with self._idle:
            if cursor is None:
                if len(self._scans) >= SCANS:
                    raise NotAvailableError(f"{SCANS} scans wait at this task, which is all that it keeps", True)
                cursor = f"{self._token}-{next(self._numbers)}"
            self._scans[cursor] = scan
            return cursor

    def _builder(self, name: str) -> StoreBuilder[Any]:
        """Return the store's description with serdes that leave bytes as they are."""
        found = self._builders.get(name)
        if found is None:
            known = {name: b for name, b in self._topology.stores.items() if b.kind in READERS}
            if name not in known:
                raise ValueError(f"the job has no store {name!r}{did_you_mean(name, known)}")
            found = self._builders[name] = replace(known[name], key=_KEYS, value=_VALUES)
        return found

    def _describe(self, name: str) -> Description:
        builder = self._topology.stores[name]
        return Description(
            kind=builder.kind,
            key=key_serde(builder.key).description,
            value=value_serde(builder.value).description,
            settings=dict(builder.settings),
            partitions=self._partitions,
            is_global=name in self._topology.global_stores,
        )


def _same(data: bytes) -> bytes:
    return data


_KEYS: KeySerde[bytes] = KeySerde(_same, _same, _same, _same, "encoded")
_VALUES: ValueSerde[bytes] = ValueSerde(_same, _same, "encoded")
