"""A store of a running job, read from another process: the methods of the stores themselves, over requests to its tasks.

    get, fetch, history, ...      asked of the partition that the key lives in
    get_many                      one request a partition, all at once
    range, all, fetch_all, ...    of all partitions, merged as one partition would give them (`row_order.py`)
    aget, aget_many               for event loops

Arguments are checked and encoded here, see `remote_codec.py`. A scan begins in all partitions when it is made, and then
fetches pages as they are needed. Each partition is seen as it was at one moment; partitions are not seen at the same
moment. A RemoteStore can be used by any number of threads, an iterator by one at a time.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import TracebackType
from typing import Any

from raystreams.cluster.partitioned_store import BY_KEY
from raystreams.cluster.remote_codec import Codec, Handle
from raystreams.cluster.remote_requests import Ask, Directory, Pending, next_page
from raystreams.cluster.row_order import is_reverse
from raystreams.cluster.suggest import did_you_mean
from raystreams.cluster.task_reads import Description, ReadRequest, ReadResponse, read_methods
from raystreams.stores.errors import ClosedStoreError
from raystreams.stores.serdes import partition_of


class RemoteStore:
    """Reads of one store over all partitions."""

    def __init__(
        self,
        directory: Directory,
        handle: Handle,
        *,
        timeout: float = 10.0,
        stale_ok: bool = False,
        page: int = 1000,
    ) -> None:
        """Ask the job what the store is; ValueError if it has none of that name, TypeError if the handle's types differ."""
        name = handle if isinstance(handle, str) else handle.name
        if name is None:
            raise ValueError("a store without a name can't be asked for: name it where its table is made")
        self.name, self._directory = name, directory
        self._timeout, self._stale_ok, self._page = timeout, stale_ok, page
        found: Description = self._begin(None, "describe", {}).wait().value
        self._partitions = 1 if found.is_global else found.partitions
        self._is_global = found.is_global
        self._codec = Codec(name, handle, found)
        self._kind, self._methods = found.kind, read_methods(found.kind)

    def __repr__(self) -> str:
        return f"RemoteStore({self.name!r} of the job {self._directory.job!r})"

    def __dir__(self) -> Iterable[str]:
        asynchronous = ("aget", "aget_many") if "get" in self._methods else ()
        return sorted({"name", *self._methods, *asynchronous})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        self._check(name)
        if name == "approximate_num_entries":
            return self._entries
        return partial(self._of_key if name in BY_KEY else self._of_all, name)

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those keys that have one."""
        keys = list(keys)
        asked = self._begin_many(keys)
        return self._found(keys, [(part, pending.wait()) for part, pending in asked])

    async def aget(self, key: Any, **options: Any) -> Any:
        """As `get`, for an event loop."""
        self._check("get")
        return self._codec.value((await self._begin_of_key("get", (key,), options).answer()).value)

    async def aget_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """As `get_many`, for an event loop."""
        keys = list(keys)
        asked = self._begin_many(keys)
        responses = await asyncio.gather(*(pending.answer() for _, pending in asked))
        return self._found(keys, zip((part for part, _ in asked), responses, strict=True))

    # ---- one key

    def _of_key(self, method: str, *args: Any, **kwargs: Any) -> Any:
        pending = self._begin_of_key(method, args, kwargs)
        response = pending.wait()
        if response.rows is None:
            return self._codec.value(response.value)
        return RemoteRows(self.name, [self._scan(pending, response)], self._codec.row)

    def _begin_of_key(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pending:
        arguments = self._codec.arguments(method, args, kwargs)
        assert arguments is not None  # there is no range of keys
        return self._begin(self._owner(args[0] if args else kwargs["key"]), method, arguments)

    def _begin_many(self, keys: Iterable[Any]) -> list[tuple[list[Any], Pending]]:
        self._check("get_many")
        of_partition: dict[int | None, list[Any]] = {}
        for key in keys:
            of_partition.setdefault(self._owner(key), []).append(key)
        encode = self._codec.key.encode
        return [
            (asked, self._begin(partition, "get_many", {"keys": [encode(key) for key in asked]}))
            for partition, asked in of_partition.items()
        ]

    def _found(self, keys: Iterable[Any], answers: Iterable[tuple[list[Any], ReadResponse]]) -> dict[Any, Any]:
        data = {key: data for part, response in answers for key, data in zip(part, response.value, strict=True)}
        return {key: self._codec.value(data[key]) for key in keys if data[key] is not None}

    # ---- all partitions

    def _of_all(self, method: str, *args: Any, **kwargs: Any) -> RemoteRows:
        arguments = self._codec.arguments(method, args, kwargs)
        if arguments is None:
            return RemoteRows(self.name, [], self._codec.row)
        pending = self._begin_everywhere(method, arguments)
        scans: list[_Scan] = []
        try:
            for one in pending:
                scans.append(self._scan(one, one.wait()))
        except BaseException:
            for scan in scans:
                scan.close()
            raise
        return RemoteRows(self.name, scans, self._codec.row, self._codec.place(method), is_reverse(method))

    def _entries(self) -> int:
        return sum(pending.wait().value for pending in self._begin_everywhere("approximate_num_entries", {}))

    def _scan(self, pending: Pending, first: ReadResponse) -> _Scan:
        return _Scan(pending.ask, first, self._page, self._timeout)

    # ---- requests

    def _check(self, method: str) -> None:
        if method not in self._methods:
            kind = f"the store {self.name!r} ({self._kind.replace('_', ' ')})"
            raise AttributeError(f"{kind} can't be asked for {method!r}{did_you_mean(method, self._methods)}")

    def _owner(self, key: Any) -> int | None:
        """The partition of a key; any, where all have all rows."""
        if self._is_global:
            return None
        return partition_of(self._codec.key.partition_bytes(key), self._partitions)

    def _begin_everywhere(self, method: str, arguments: dict[str, Any]) -> list[Pending]:
        partitions = [None] if self._is_global else range(self._partitions)
        return [self._begin(partition, method, arguments) for partition in partitions]

    def _begin(self, partition: int | None, method: str, arguments: dict[str, Any]) -> Pending:
        request = ReadRequest(store=self.name, method=method, args=arguments, page=self._page)
        return Pending(self._directory, partition, request, timeout=self._timeout, stale_ok=self._stale_ok)


class _Scan:
    """A scan of one partition, page after page."""

    def __init__(self, ask: Ask, first: ReadResponse, page: int, timeout: float) -> None:
        self._ask, self._response, self._page, self._timeout = ask, first, page, timeout

    def rows(self) -> Iterator[Any]:
        """Yield the rows as they came."""
        while True:
            yield from self._response.rows or ()
            cursor = self._response.cursor
            if cursor is None:
                return
            self._response = ReadResponse()  # if the next page doesn't come, there is nothing to let go of
            self._response = next_page(self._ask, cursor, self._page, self._timeout)

    def close(self) -> None:
        """Have the task let go of its snapshot, without waiting for it; if that gets lost, it does so by itself."""
        if self._response.cursor is not None:
            self._ask(ReadRequest(cursor=self._response.cursor, page=0))
            self._response = ReadResponse()


class RemoteRows:
    """Rows of a scan, and its own context manager; one that isn't closed is let go of by the tasks after a while.

    NotAvailableError with `retry` where a task has moved, or a page was not asked for in time: make the scan again then.
    """

    def __init__(
        self,
        store: str,
        scans: list[_Scan],
        decode: Callable[[Any], Any],
        place: Callable[[Any], Any] | None = None,
        reverse: bool = False,
    ) -> None:
        self._store, self._scans, self._open = store, scans, True
        rows = [scan.rows() for scan in scans]
        merged = rows[0] if len(rows) == 1 else heapq.merge(*rows, key=place, reverse=reverse)
        self._rows: Iterator[Any] = map(decode, merged)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._open:
            raise ClosedStoreError(f"this iterator over store {self._store!r}")
        return next(self._rows)

    def __enter__(self) -> RemoteRows:
        return self

    def __exit__(self, t: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the rows; a second call does nothing."""
        self._open = False
        for scan in self._scans:
            scan.close()
