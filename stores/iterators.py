"""What scans of stores return: an iterator that is a context manager, and can tell its next row without taking it.

    with store.range("a", "f") as rows:
        for key, value in rows: ...

Read to its end, it closes itself. One that is left in the middle holds on to old rows until it is closed; if nobody
closes it, the garbage collector does, with a ResourceWarning. After `close` it raises ClosedStoreError.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Generic, NoReturn

from raystreams.stores.errors import ClosedStoreError
from raystreams.stores.protocols import Keyspace
from typing_extensions import TypeVar

T = TypeVar("T", default=Any)

_NOTHING: Any = object()


class StoreIterator(Generic[T]):
    """Rows of a store, decoded one at a time.

    When its store is closed while it is open, it raises ClosedStoreError, or just ends if `ends_with_store`: as Kafka's
    iterators over segments do, which window and session stores have.
    """

    __slots__ = ("_ends_with_store", "_keyspace", "_open", "_peeked", "_rows")

    def __init__(self, rows: Iterator[T], keyspace: Keyspace, *, ends_with_store: bool = False) -> None:
        self._rows: Iterator[T] | None = rows
        self._keyspace = keyspace
        self._ends_with_store = ends_with_store
        self._peeked: Any = _NOTHING
        self._open = True

    def __iter__(self) -> StoreIterator[T]:
        return self

    def __next__(self) -> T:
        rows = self._rows
        if rows is None or self._keyspace.closed:
            self._refuse()
        if self._peeked is not _NOTHING:
            row: T = self._peeked
            self._peeked = _NOTHING
            return row
        try:
            return next(rows)
        except BaseException:  # its end, or an error: in either case there is nothing more to read
            self._let_go()
            raise

    def peek(self) -> T:
        """Return the next row without taking it; a LookupError at the end."""
        try:
            row = next(self)
        except StopIteration:
            raise LookupError("no row is left") from None
        self._peeked = row
        return row

    def _refuse(self) -> NoReturn:
        if not self._open:
            raise ClosedStoreError(f"this iterator over store {self._keyspace.name!r}")
        if self._rows is None or self._ends_with_store:
            raise StopIteration
        raise ClosedStoreError(f"store {self._keyspace.name!r}")

    def _let_go(self) -> None:
        close = getattr(self._rows, "close", None)
        self._rows = None
        if close is not None:
            close()

    def close(self) -> None:
        """Let go of the rows; a second call does nothing."""
        self._open = False
        self._let_go()

    def __enter__(self) -> StoreIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._rows is not None and not self._keyspace.closed:
            warnings.warn(
                f"an iterator over store {self._keyspace.name!r} was neither closed nor read to its end: use `with`",
                ResourceWarning,
                source=self,
                stacklevel=2,
            )
