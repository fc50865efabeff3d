"""Descriptions of stores, and stores made from them.

A `StoreBuilder` is plain, frozen data: it travels with the topology, and a task turns it into a store over its own
database. `replace` completes types that the description left open. `open` gives a store of its own, for tests,
scripts and notebooks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from typing import Any, Generic, TypedDict

from raystreams.stores.database import TaskDatabase
from raystreams.stores.foreign_key import ForeignKeyIndex, SubscriptionStore, VersionedForeignKeyIndex
from raystreams.stores.keyvalue import KeyValueStore, TimestampedKeyValueStore
from raystreams.stores.protocols import Keyspace
from raystreams.stores.serdes import KeySerde, Serde, ValueSerde, key_serde, value_serde
from raystreams.stores.session import SessionStore
from raystreams.stores.time_ordered import OuterJoinBuffer, SuppressBuffer, TimeOrderedBuffer
from raystreams.stores.values import Duration, duration_milliseconds
from raystreams.stores.versioned import VersionedStore
from raystreams.stores.window import TimestampedWindowStore, WindowStore
from typing_extensions import TypeVar, Unpack

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
S = TypeVar("S", default=Any)

_logger = logging.getLogger(__name__)

Make = Callable[..., Any]
"""A store's class, or what else makes one of `(keyspace, key serde, value serde, **settings)`."""


@dataclass(frozen=True, kw_only=True)
class StoreBuilder(Generic[S]):
    """What a store is: its name, kind, types and settings. `settings` are those that its rows depend on."""

    name: str
    kind: str
    make: Make
    key: Any = None
    value: Any = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    in_memory: bool = False
    caching: bool = False
    formerly: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"the name of a store is a str, got {self.name!r}")
        if not self.name:
            raise ValueError("the name of a store must not be empty")

    def identity(self) -> dict[str, Any]:
        """Return what the database keeps about the store, and compares when it is opened again."""
        key, value = key_serde(self.key).description, value_serde(self.value).description
        return {"kind": self.kind, "key": key, "value": value, **self.settings}

    def create(self, database: TaskDatabase) -> S:
        """Open the store in a task's database."""
        keyspace = database.keyspace(
            self.name, identity=self.identity(), in_memory=self.in_memory, formerly=self.formerly
        )
        return self.over(keyspace)

    def read_committed(self, database: TaskDatabase) -> S:
        """Return the store as it was last committed, to read from any thread; its writes raise StoreError."""
        return self.over(database.read_committed(self.name))

    def over(self, keyspace: Keyspace) -> S:
        """Return the store over rows that are already open."""
        store: S = self.make(keyspace, key_serde(self.key), value_serde(self.value), **self.settings)
        return store

    @contextmanager
    def open(self, path: str | PathLike[str] | None = None) -> Iterator[S]:
        """Open a store of its own, in memory or in LevelDB at a path, for a `with` block.

        At the end of the block it is committed, unless the block raises; then what it wrote is lost.
        """
        with TaskDatabase.open(path, {"store": self.name}) as database:
            yield self.create(database)
            database.commit(sync=True)


class StoreOptions(TypedDict, total=False):
    """Options that all kinds of stores have.

    `caching` holds results back until the next commit; `in_memory` keeps all rows in memory, though they are committed like
    others; `formerly` is the name that the store had before, whose rows it takes over.
    """

    caching: bool
    in_memory: bool
    formerly: str | None


class WindowOptions(StoreOptions, total=False):
    """Options of window stores.

    `retain_duplicates` keeps several values a window, in order of arrival. `segment_interval` shows in the order of rows of
    several keys: segment by segment, by key in each. `time_first` keeps an index by time, and gives them in that order.
    """

    retain_duplicates: bool
    segment_interval: Duration | None
    time_first: bool


class Stores:
    """Builders of all kinds of stores."""

    @staticmethod
    def key_value(
        name: str,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        **options: Unpack[StoreOptions],
    ) -> StoreBuilder[KeyValueStore[K, V]]:
        """Describe a store of one value a key."""
        return StoreBuilder(name=name, kind="key_value", make=KeyValueStore, key=key, value=value, **options)

    @staticmethod
    def timestamped_key_value(
        name: str,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        **options: Unpack[StoreOptions],
    ) -> StoreBuilder[TimestampedKeyValueStore[K, V]]:
        """Describe a store of one value a key, with the time of its record."""
        return StoreBuilder(
            name=name, kind="timestamped_key_value", make=TimestampedKeyValueStore, key=key, value=value, **options
        )

    @staticmethod
    def versioned(
        name: str,
        *,
        history_retention: Duration,
        segment_interval: Duration | None = None,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        **options: Unpack[StoreOptions],
    ) -> StoreBuilder[VersionedStore[K, V]]:
        """Describe a store of all versions of a value within its history retention, which is also its grace period.

        `segment_interval` says how late expired versions are deleted from disk; it changes no answer.
        """
        settings = _history(history_retention, segment_interval)
        if options.get("caching"):
            raise ValueError(f"store {name!r}: a versioned store can't be cached, as each of its versions counts")
        return StoreBuilder(name=name, kind="versioned", make=VersionedStore, key=key, value=value, settings=settings, **options)

    @staticmethod
    def window(
        name: str,
        *,
        retention: Duration,
        size: Duration,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        **options: Unpack[WindowOptions],
    ) -> StoreBuilder[WindowStore[K, V]]:
        """Describe a store of one value a key and window, or of several."""
        return _window_builder(name, "window", WindowStore, key, value, retention, size, options)

    @staticmethod
    def timestamped_window(
        name: str,
        *,
        retention: Duration,
        size: Duration,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        **options: Unpack[WindowOptions],
    ) -> StoreBuilder[TimestampedWindowStore[K, V]]:
        """Describe a window store whose values have the time of their record."""
        return _window_builder(name, "timestamped_window", TimestampedWindowStore, key, value, retention, size, options)

    @staticmethod
    def session(
        name: str,
        *,
        retention: Duration,
        segment_interval: Duration | None = None,
        time_first: bool = False,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        **options: Unpack[StoreOptions],
    ) -> StoreBuilder[SessionStore[K, V]]:
        """Describe a store of one aggregate a key and session; the other options are as in window stores."""
        kept = _duration(retention, "retention", 0)
        settings = {"retention": kept, "segment_interval": _segment_interval(kept, segment_interval), "time_first": time_first}
        return StoreBuilder(name=name, kind="session", make=SessionStore, key=key, value=value, settings=settings, **options)


# ---- stores of operators, whose rows are bytes ----------------------------------------------------------------------


def subscription_store(name: str) -> StoreBuilder[SubscriptionStore]:
    """Describe the subscriptions of a foreign-key join of tables."""
    return _of_bytes(name, "subscriptions", SubscriptionStore)


def foreign_key_index(name: str) -> StoreBuilder[ForeignKeyIndex]:
    """Describe an index of a table by a foreign key."""
    return _of_bytes(name, "foreign_key_index", ForeignKeyIndex)


def versioned_foreign_key_index(name: str, *, history_retention: Duration) -> StoreBuilder[VersionedForeignKeyIndex]:
    """Describe an index of a versioned table by a foreign key, with its history."""
    return _of_bytes(name, "versioned_foreign_key_index", VersionedForeignKeyIndex, _history(history_retention))


def time_ordered_buffer(name: str) -> StoreBuilder[TimeOrderedBuffer]:
    """Describe a buffer that gives payloads back in the order of time."""
    return _of_bytes(name, "time_ordered_buffer", TimeOrderedBuffer)


def suppress_buffer(name: str) -> StoreBuilder[SuppressBuffer]:
    """Describe the buffer of `suppress`: one payload a key."""
    return _of_bytes(name, "suppress_buffer", SuppressBuffer)


def outer_join_buffer(name: str) -> StoreBuilder[OuterJoinBuffer]:
    """Describe the records of a left or outer join of streams that have met no other yet."""
    return _of_bytes(name, "outer_join_buffer", OuterJoinBuffer)


def _of_bytes(name: str, kind: str, cls: Callable[..., Any], settings: Mapping[str, Any] | None = None) -> StoreBuilder[Any]:
    return StoreBuilder(
        name=name, kind=kind, make=partial(_over_bytes, cls), key=bytes, value=bytes, settings=settings or {}
    )


def _over_bytes(
    cls: Callable[..., Any], keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], **settings: Any
) -> Any:
    return cls(keyspace, **settings)


def _window_builder(
    name: str, kind: str, make: Make, key: Any, value: Any, retention: Duration, size: Duration, options: WindowOptions
) -> StoreBuilder[Any]:
    kept, length = _duration(retention, "retention", 0), _duration(size, "size", 0)
    if length > kept:
        raise ValueError(f"a window of {length} ms is longer than the retention of {kept} ms that its store has")
    given = dict(options)
    duplicates = given.pop("retain_duplicates", False)
    settings = {
        "retention": kept,
        "size": length,
        "retain_duplicates": duplicates,
        "segment_interval": _segment_interval(kept, options.get("segment_interval")),
        "time_first": given.pop("time_first", False),
    }
    given.pop("segment_interval", None)
    if duplicates and given.get("caching"):
        _logger.warning("store %r keeps duplicates, and is not cached: a cache holds one value a key", name)
        given["caching"] = False
    return StoreBuilder(name=name, kind=kind, make=make, key=key, value=value, settings=settings, **given)  # type: ignore[arg-type]  # what is left are StoreOptions


def _segment_interval(retention: int, interval: Duration | None) -> int:
    """Kafka's default: two segments a retention, and none shorter than a minute."""
    return max(retention // 2, 60_000) if interval is None else _duration(interval, "segment_interval", 1)


def _history(history_retention: Duration, segment_interval: Duration | None = None) -> dict[str, int]:
    retention = _duration(history_retention, "history_retention", 0)
    interval = _versioned_interval(retention) if segment_interval is None else segment_interval
    return {"history_retention": retention, "segment_interval": _duration(interval, "segment_interval", 1)}


def _duration(duration: Duration, what: str, least: int) -> int:
    milliseconds = duration_milliseconds(duration, what=what)
    if milliseconds < least:
        raise ValueError(f"{what} must be at least {least} ms, got {milliseconds} ms")
    return milliseconds


def _versioned_interval(retention: int) -> int:
    """Kafka's default: few segments for a short history, more for a long one."""
    if retention <= 60_000:
        return max(retention // 3, 2_000)
    if retention <= 300_000:
        return max(retention // 5, 20_000)
    if retention <= 3_600_000:
        return max(retention // 12, 60_000)
    return max(retention // 24, 300_000)
