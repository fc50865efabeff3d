"""What moves: records between topics, changes between table operators.

Inside a sub-topology a record is four arguments `(key, value, timestamp, headers)`, not an object: an object costs a
third of a microsecond on every edge (design: section 5). `Record` appears where a user sees one: processors, sinks, tests.
On table edges the value is a `Change`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Generic

import msgspec
from raystreams.stores.values import NO_HEADERS
from typing_extensions import TypeVar

K_co = TypeVar("K_co", covariant=True, default=Any)
V_co = TypeVar("V_co", covariant=True, default=Any)
K = TypeVar("K")
V = TypeVar("V")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Headers = Mapping[str, bytes]

Process = Callable[[Any, Any, int, Headers], None]
"""One operator of a running topology: takes `(key, value, timestamp, headers)` and calls what comes after it."""


class Record(msgspec.Struct, Generic[K_co, V_co], frozen=True):
    """A record: key, value (None = null, on a table a deletion), `timestamp` in milliseconds since the epoch (UTC)."""

    key: K_co
    value: V_co
    timestamp: int
    headers: Headers = NO_HEADERS

    def __reduce__(self) -> tuple[Any, ...]:
        # NO_HEADERS is a mapping proxy, which pickle refuses.
        return Record, (self.key, self.value, self.timestamp, dict(self.headers))

    @property
    def time(self) -> datetime:
        """The timestamp as an aware datetime (UTC)."""
        return _EPOCH + timedelta(milliseconds=self.timestamp)

    def with_key(self, key: K) -> Record[K, V_co]:
        """This record under another key."""
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: V) -> Record[K_co, V]:
        """This record with another value."""
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record[K_co, V_co]:
        """This record at another time."""
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record[K_co, V_co]:
        """This record with other headers."""
        return Record(self.key, self.value, self.timestamp, headers)


class Change(msgspec.Struct, frozen=True, gc=False):
    """An update of a table's row. `is_latest` is False for a record that is older than the row's newest (KIP-914)."""

    new: Any
    old: Any
    is_latest: bool = True
