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
from typing import Any, Generic

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
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
S = TypeVar("S", default=Any)

_logger = logging.getLogger(__name__)

Make = Callable[[Keyspace, KeySerde[Any], ValueSerde[Any], Mapping[str, Any]], Any]


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
        store: S = self.make(keyspace, key_serde(self.key), value_serde(self.value), self.settings)
        return store

    @contextmanager
    def open(self, path: str | PathLike[str] | None = None) -> Iterator[S]:
        """Open a store of its own, in memory or in LevelDB at a path, for a `with` block.

        At the end of the block it is committed, unless the block raises; then what it wrote is lost.
        """
        with TaskDatabase.open(path, {"store": self.name}) as database:
            yield self.create(database)
            database.commit(sync=True)


class Stores:
    """Builders of all kinds of stores."""

    @staticmethod
    def key_value(
        name: str,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        caching: bool = False,
        in_memory: bool = False,
        formerly: str | None = None,
    ) -> StoreBuilder[KeyValueStore[K, V]]:
        """Describe a store of one value a key."""
        return StoreBuilder(
            name=name, kind="key_value", make=_key_value, key=key, value=value,
            caching=caching, in_memory=in_memory, formerly=formerly,
        )  # fmt: skip

    @staticmethod
    def timestamped_key_value(
        name: str,
        *,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        caching: bool = False,
        in_memory: bool = False,
        formerly: str | None = None,
    ) -> StoreBuilder[TimestampedKeyValueStore[K, V]]:
        """Describe a store of one value a key, with the time of its record."""
        return StoreBuilder(
            name=name, kind="timestamped_key_value", make=_timestamped_key_value, key=key, value=value,
            caching=caching, in_memory=in_memory, formerly=formerly,
        )  # fmt: skip

    @staticmethod
    def versioned(
        name: str,
        *,
        history_retention: Duration,
        segment_interval: Duration | None = None,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        caching: bool = False,
        in_memory: bool = False,
        formerly: str | None = None,
    ) -> StoreBuilder[VersionedStore[K, V]]:
        """Describe a store of all versions of a value within its history retention, which is also its grace period.

        `segment_interval` says how late expired versions are deleted from disk; it changes no answer.
        """
        retention = _duration(history_retention, "history_retention", 0)
        interval = _versioned_interval(retention)
        if segment_interval is not None:
            interval = _duration(segment_interval, "segment_interval", 1)
        if caching:
            raise ValueError(f"store {name!r}: a versioned store can't be cached, as each of its versions counts")
        return StoreBuilder(
            name=name, kind="versioned", make=_versioned, key=key, value=value, in_memory=in_memory, formerly=formerly,
            settings={"history_retention": retention, "segment_interval": interval},
        )  # fmt: skip

    @staticmethod
    def window(
        name: str,
        *,
        retention: Duration,
        size: Duration,
        retain_duplicates: bool = False,
        segment_interval: Duration | None = None,
        time_first: bool = False,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        caching: bool = False,
        in_memory: bool = False,
        formerly: str | None = None,
    ) -> StoreBuilder[WindowStore[K, V]]:
        """Describe a store of one value a key and window, or of several in order of arrival with `retain_duplicates`.

        Rows of several keys come segment by segment, by key in each; `time_first` keeps an index by time in addition.
        """
        return StoreBuilder(
            name=name, kind="window", make=_window, key=key, value=value, in_memory=in_memory, formerly=formerly,
            caching=_window_caching(name, caching, retain_duplicates),
            settings=_window_settings(retention, size, retain_duplicates, segment_interval, time_first),
        )  # fmt: skip

    @staticmethod
    def timestamped_window(
        name: str,
        *,
        retention: Duration,
        size: Duration,
        retain_duplicates: bool = False,
        segment_interval: Duration | None = None,
        time_first: bool = False,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        caching: bool = False,
        in_memory: bool = False,
        formerly: str | None = None,
    ) -> StoreBuilder[TimestampedWindowStore[K, V]]:
        """Describe a window store whose values have the time of their record."""
        return StoreBuilder(
            name=name, kind="timestamped_window", make=_timestamped_window, key=key, value=value, in_memory=in_memory,
            formerly=formerly, caching=_window_caching(name, caching, retain_duplicates),
            settings=_window_settings(retention, size, retain_duplicates, segment_interval, time_first),
        )  # fmt: skip

    @staticmethod
    def session(
        name: str,
        *,
        retention: Duration,
        segment_interval: Duration | None = None,
        time_first: bool = False,
        key: type[K] | Serde[K] | None = None,
        value: type[V] | Serde[V] | None = None,
        caching: bool = False,
        in_memory: bool = False,
        formerly: str | None = None,
    ) -> StoreBuilder[SessionStore[K, V]]:
        """Describe a store of one aggregate a key and session."""
        kept = _duration(retention, "retention", 0)
        interval = _window_interval(kept, segment_interval)
        return StoreBuilder(
            name=name, kind="session", make=_session, key=key, value=value, caching=caching, in_memory=in_memory,
            formerly=formerly, settings={"retention": kept, "segment_interval": interval, "time_first": time_first},
        )  # fmt: skip


# ---- stores of operators, whose rows are bytes ----------------------------------------------------------------------


def subscription_store(name: str) -> StoreBuilder[SubscriptionStore]:
    """Describe the subscriptions of a foreign-key join of tables."""
    return _of_bytes(name, "subscriptions", SubscriptionStore)


def foreign_key_index(name: str) -> StoreBuilder[ForeignKeyIndex]:
    """Describe an index of a table by a foreign key."""
    return _of_bytes(name, "foreign_key_index", ForeignKeyIndex)


def versioned_foreign_key_index(name: str, *, history_retention: Duration) -> StoreBuilder[VersionedForeignKeyIndex]:
    """Describe an index of a versioned table by a foreign key, with its history."""
    retention = _duration(history_retention, "history_retention", 0)
    settings = {"history_retention": retention, "segment_interval": _versioned_interval(retention)}
    return _of_bytes(name, "versioned_foreign_key_index", VersionedForeignKeyIndex, settings)


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
    cls: Callable[..., Any], keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], settings: Mapping[str, Any]
) -> Any:
    return cls(keyspace, **settings)


def _window_settings(
    retention: Duration, size: Duration, retain_duplicates: bool, segment_interval: Duration | None, time_first: bool
) -> dict[str, Any]:
    kept, length = _duration(retention, "retention", 0), _duration(size, "size", 0)
    if length > kept:
        raise ValueError(f"a window of {length} ms is longer than the retention of {kept} ms that its store has")
    return {
        "retention": kept,
        "size": length,
        "retain_duplicates": retain_duplicates,
        "segment_interval": _window_interval(kept, segment_interval),
        "time_first": time_first,
    }


def _window_interval(retention: int, interval: Duration | None) -> int:
    """Kafka's default: two segments a retention, and none shorter than a minute."""
    return max(retention // 2, 60_000) if interval is None else _duration(interval, "segment_interval", 1)


def _window_caching(name: str, caching: bool, retain_duplicates: bool) -> bool:
    if caching and retain_duplicates:
        _logger.warning("store %r keeps duplicates, and is not cached: a cache holds one value a key", name)
        return False
    return caching


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


def _versioned(
    keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], settings: Mapping[str, Any]
) -> VersionedStore[Any, Any]:
    return VersionedStore(keyspace, key, value, **settings)


def _window(
    keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], settings: Mapping[str, Any]
) -> WindowStore[Any, Any]:
    return WindowStore(keyspace, key, value, **settings)


def _timestamped_window(
    keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], settings: Mapping[str, Any]
) -> TimestampedWindowStore[Any, Any]:
    return TimestampedWindowStore(keyspace, key, value, **settings)


def _session(
    keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], settings: Mapping[str, Any]
) -> SessionStore[Any, Any]:
    return SessionStore(keyspace, key, value, **settings)


def _key_value(
    keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], settings: Mapping[str, Any]
) -> KeyValueStore[Any, Any]:
    return KeyValueStore(keyspace, key, value)


def _timestamped_key_value(
    keyspace: Keyspace, key: KeySerde[Any], value: ValueSerde[Any], settings: Mapping[str, Any]
) -> TimestampedKeyValueStore[Any, Any]:
    return TimestampedKeyValueStore(keyspace, key, value)
