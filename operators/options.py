"""What a user may say beside an operator's functions: typed handles (`Topic`, `Materialized`) and small frozen settings."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

from raystreams.operators.errors import TopologyError
from raystreams.operators.record import Record
from raystreams.stores.serdes import Serde
from raystreams.stores.values import Duration, Time, duration_milliseconds
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
KD = TypeVar("KD", default=Any)
VD = TypeVar("VD", default=Any)

Hint = Any
"""A type, a `Serde`, or None for plain data."""

_LEGAL_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}\Z")


def check_name(name: str, what: str) -> str:
    """Return `name`, or raise TopologyError: names are 1 to 249 of letters, digits, `.`, `_`, `-`, not `.` or `..`."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} must be a str, got {name!r}")
    if not _LEGAL_NAME.match(name) or name in (".", ".."):
        raise TopologyError(f"{name!r} can't name a {what}: use 1 to 249 letters, digits, '.', '_' and '-'")
    return name


@dataclass(frozen=True, slots=True)
class Topic(Generic[K, V]):
    """A named stream of records with its key and value types; the same object in topology, job, tests and clients."""

    name: str
    key: type[K] | Serde[K] | None = field(default=None, kw_only=True)
    value: type[V] | Serde[V] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_name(self.name, "topic")

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Send records that fail to a topic, with the cause in their headers, and go on."""

    topic: str | Topic[Any, Any]

    @property
    def topic_name(self) -> str:
        """The topic's name."""
        return self.topic.name if isinstance(self.topic, Topic) else self.topic


OnError = Literal["fail", "skip"] | DeadLetter


def check_on_error(on_error: OnError | None) -> OnError | None:
    """Return `on_error`, or raise ValueError for anything but 'fail', 'skip' and DeadLetter(topic)."""
    if on_error is None or on_error in ("fail", "skip") or isinstance(on_error, DeadLetter):
        return on_error
    raise ValueError(f"on_error must be 'fail', 'skip' or DeadLetter(topic), got {on_error!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """How a topic is read. `reorder` sorts a table's records by time, per key, before anything sees them."""

    timestamp_extractor: Callable[[Record[Any, Any], int], Time] | None = None
    offset_reset: Literal["earliest", "latest"] = "earliest"
    reorder: Duration | None = None
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        check_on_error(self.on_error)
        if self.offset_reset not in ("earliest", "latest"):
            raise ValueError(f"offset_reset must be 'earliest' or 'latest', got {self.offset_reset!r}")
        if self.reorder is not None and duration_milliseconds(self.reorder, what="reorder") < 0:
            raise ValueError("reorder must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """How a topic is written. `partitioner(key, value, partitions)` picks the partition."""

    partitioner: Callable[[Any, Any, int], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartitioned:
    """How an explicit repartition routes: `partitioner(key, value, partitions)` replaces the hash of the key."""

    partitioner: Callable[[Any, Any, int], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """`grace` lets a stream record wait for late rows of a versioned table, up to that age (KIP-923)."""

    grace: Duration | None = None

    @property
    def grace_milliseconds(self) -> int | None:
        """`grace` in milliseconds; raises ValueError when negative."""
        if self.grace is None:
            return None
        grace = duration_milliseconds(self.grace, what="grace")
        if grace < 0:
            raise ValueError(f"grace must not be negative, got {grace} ms")
        return grace


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamJoined:
    """Names and kinds of the window stores of a stream-stream join."""

    store_name: str | None = None
    in_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJoined:
    """Partitioners of a foreign-key join: `partitioner(key, None, partitions)` as the left table is partitioned,
    `other_partitioner(foreign_key, None, partitions)` as the right one is (KIP-775)."""

    partitioner: Callable[[Any, Any, int], int] | None = None
    other_partitioner: Callable[[Any, Any, int], int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitStrategy:
    """When a windowed aggregation gives out results: at every update, or once when a window closes (KIP-825)."""

    on_close: bool = False

    @classmethod
    def on_window_close(cls) -> EmitStrategy:
        """One final result a window."""
        return cls(on_close=True)

    @classmethod
    def on_window_update(cls) -> EmitStrategy:
        """A result at every update (the default)."""
        return cls(on_close=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suppressed:
    """How long `KTable.suppress` holds updates back (KIP-328). Made by its two class methods."""

    wait: int | None
    max_records: int | None = None
    max_bytes: int | None = None
    when_full: Literal["emit", "fail"] = "fail"

    def __post_init__(self) -> None:
        for what, limit in (("max_records", self.max_records), ("max_bytes", self.max_bytes)):
            if limit is not None and limit < 0:
                raise ValueError(f"{what} must not be negative, got {limit}")
        if self.when_full not in ("emit", "fail"):
            raise ValueError(f"when_full must be 'emit' or 'fail', got {self.when_full!r}")

    @classmethod
    def until_window_closes(cls, max_records: int | None = None, max_bytes: int | None = None) -> Suppressed:
        """Only the final result of each window. A full buffer raises BufferFullError: emitting early would not be final."""
        return cls(wait=None, max_records=max_records, max_bytes=max_bytes, when_full="fail")

    @classmethod
    def until_time_limit(
        cls,
        wait: Duration,
        max_records: int | None = None,
        max_bytes: int | None = None,
        when_full: Literal["emit", "fail"] = "emit",
    ) -> Suppressed:
        """The last update of each key, `wait` of stream time after its first. Full: emit the oldest early, or fail."""
        milliseconds = duration_milliseconds(wait, what="wait")
        if milliseconds < 0:
            raise ValueError(f"wait must not be negative, got {milliseconds} ms")
        return cls(wait=milliseconds, max_records=max_records, max_bytes=max_bytes, when_full=when_full)


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialized(Generic[K, V]):
    """The store of a table, and itself the typed handle to ask for it. Made by its class methods.

    `formerly` is the store's name in an earlier version of the job, whose state is kept. With `caching` a table from a topic or
    an aggregation gives out of each key only the last change, when the job commits (not on close; the store is written at once).
    """

    kind: Literal["key_value", "in_memory", "versioned", "window", "session"]
    name: str | None = None
    key: Hint = None
    value: Hint = None
    history_retention: int | None = None
    segment_interval: int | None = None
    retention: int | None = None
    caching: bool = False
    formerly: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name, "store")

    @classmethod
    def key_value(
        cls,
        name: str | None = None,
        *,
        key: type[KD] | Serde[KD] | None = None,
        value: type[VD] | Serde[VD] | None = None,
        caching: bool = False,
        formerly: str | None = None,
    ) -> Materialized[KD, VD]:
        """A key-value store on disk."""
        return Materialized(kind="key_value", name=name, key=key, value=value, caching=caching, formerly=formerly)

    @classmethod
    def in_memory(
        cls,
        name: str | None = None,
        *,
        key: type[KD] | Serde[KD] | None = None,
        value: type[VD] | Serde[VD] | None = None,
        caching: bool = False,
        formerly: str | None = None,
    ) -> Materialized[KD, VD]:
        """A key-value store that keeps all rows in memory too; its commits are as durable as any other's."""
        return Materialized(kind="in_memory", name=name, key=key, value=value, caching=caching, formerly=formerly)

    @classmethod
    def versioned(
        cls,
        name: str | None = None,
        *,
        history_retention: Duration,
        segment_interval: Duration | None = None,
        key: type[KD] | Serde[KD] | None = None,
        value: type[VD] | Serde[VD] | None = None,
        formerly: str | None = None,
    ) -> VersionedMaterialized[KD, VD]:
        """A versioned store (KIP-889): rows as they were, `history_retention` back from the newest time seen."""
        retention = duration_milliseconds(history_retention, what="history_retention")
        interval = None if segment_interval is None else duration_milliseconds(segment_interval, what="segment_interval")
        if retention < 0:
            raise ValueError(f"history_retention must not be negative, got {retention} ms")
        return VersionedMaterialized(
            kind="versioned", name=name, key=key, value=value, history_retention=retention, segment_interval=interval,
            formerly=formerly,
        )

    @classmethod
    def window(
        cls,
        name: str | None = None,
        *,
        retention: Duration | None = None,
        key: type[KD] | Serde[KD] | None = None,
        value: type[VD] | Serde[VD] | None = None,
        caching: bool = False,
        formerly: str | None = None,
    ) -> WindowMaterialized[KD, VD]:
        """A window store; `retention` must cover a window and its grace, and is that by default."""
        kept = None if retention is None else duration_milliseconds(retention, what="retention")
        return WindowMaterialized(
            kind="window", name=name, key=key, value=value, retention=kept, caching=caching, formerly=formerly
        )

    @classmethod
    def session(
        cls,
        name: str | None = None,
        *,
        retention: Duration | None = None,
        key: type[KD] | Serde[KD] | None = None,
        value: type[VD] | Serde[VD] | None = None,
        caching: bool = False,
        formerly: str | None = None,
    ) -> SessionMaterialized[KD, VD]:
        """A session store; `retention` must cover the gap and the grace, and is that by default."""
        kept = None if retention is None else duration_milliseconds(retention, what="retention")
        return SessionMaterialized(
            kind="session", name=name, key=key, value=value, retention=kept, caching=caching, formerly=formerly
        )


class VersionedMaterialized(Materialized[K, V]):
    """The handle of a versioned store."""

    __slots__ = ()


class WindowMaterialized(Materialized[K, V]):
    """The handle of a window store."""

    __slots__ = ()


class SessionMaterialized(Materialized[K, V]):
    """The handle of a session store."""

    __slots__ = ()
