"""What a user's processor sees of the task that runs it: its stores, clocks, children and the input record's origin.

`forward` calls the children at once, depth first, each to its end before the next; so what they raise passes through the
user's `process`. The time and headers of a forwarded record are its own, never those of the record that came in: in a
punctuator too, where there is none. A processor of fixed keys may only pass on the key that it was given, so that nothing
after it has to be routed again; in a punctuator its keys come out of its own stores, and are taken as they are.

A store of a table is read without its timestamps, and not written: the table is kept by its own operator. A global store
is read only, except by the processor that keeps it. Source: KIP-820, spec-runtime 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, NamedTuple, overload

from raystreams.operators.execution import NodeRuntime
from raystreams.operators.options import Materialized, SessionMaterialized, VersionedMaterialized, WindowMaterialized
from raystreams.operators.punctuation import Cancellable
from raystreams.operators.record import Record
from raystreams.stores.builders import StoreBuilder
from raystreams.stores.errors import RaystreamsError, StoreError
from raystreams.stores.keyvalue import KeyValueReader
from raystreams.stores.session import SessionStore
from raystreams.stores.values import Duration, duration_milliseconds
from raystreams.stores.versioned import VersionedStore
from raystreams.stores.window import WindowReader
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
S = TypeVar("S")
KS = TypeVar("KS")
VS = TypeVar("VS")

NO_KEY = object()
"""In place of the current key while there is no current record."""

_WRITES = frozenset(("put", "put_if_absent", "put_if_different", "put_all", "delete", "remove"))


class Origin(NamedTuple):
    """Where an input record came from; `(None, -1, -1)` in a punctuator."""

    topic: str | None
    partition: int
    position: Any


class ProcessorContext(Generic[K, V]):
    """Given to `init(context)`, and valid as long as the processor. K and V are the types that it forwards."""

    def __init__(
        self, node: NodeRuntime, *, tables: Collection[str] = (), fixed_key: bool = False, keeps: str | None = None
    ) -> None:
        self._node, self._tables, self._fixed_key, self._keeps = node, tables, fixed_key, keeps
        self._stores: dict[str, Any] = {}
        self._children: Mapping[str, Any] = node.children
        self._forward = node.forward
        self._key: Any = NO_KEY

    def forward(self, record: Record[K, V], to: str | None = None) -> None:
        """Hand a record to all operators after this one, or to the one named `to`; returns when they are done with it."""
        if record.timestamp < 0:
            raise ValueError(f"a record's timestamp must not be negative, got {record.timestamp} (key {record.key!r})")
        if self._fixed_key and self._key is not NO_KEY and record.key is not self._key and record.key != self._key:
            raise ValueError(
                f"{self._node.name!r} is a process_values and may not change keys: it was given {self._key!r} and forwards "
                f"{record.key!r}. Use process(...)"
            )
        if to is None:
            self._forward(record.key, record.value, record.timestamp, record.headers)
            return
        child = self._children.get(to)
        if child is None:
            known = ", ".join(map(repr, self._children)) or "none"
            raise RaystreamsError(f"no operator {to!r} comes after {self._node.name!r} (after it come: {known})")
        child(record.key, record.value, record.timestamp, record.headers)

    @overload
    def store(self, store: StoreBuilder[S]) -> S: ...
    @overload
    def store(  # type: ignore[overload-overlap]  # a Materialized of its own kind
        self, store: VersionedMaterialized[KS, VS]
    ) -> VersionedStore[KS, VS]: ...
    @overload
    def store(  # type: ignore[overload-overlap]  # a Materialized of its own kind
        self, store: WindowMaterialized[KS, VS]
    ) -> WindowReader[KS, VS]: ...
    @overload
    def store(  # type: ignore[overload-overlap]  # a Materialized of its own kind
        self, store: SessionMaterialized[KS, VS]
    ) -> SessionStore[KS, VS]: ...
    @overload
    def store(self, store: Materialized[KS, VS]) -> KeyValueReader[KS, VS]: ...
    @overload
    def store(self, store: str) -> Any: ...
    def store(self, store: Any) -> Any:
        """A store that this processor was connected to with `stores=[...]`, or any global store, to read only."""
        name = store_name(store)
        found = self._stores.get(name)
        if found is None:
            found = self._node.store(name)
            if name in self._tables:
                found = found.plain() if hasattr(found, "plain") else found
                found = _ReadOnly(found, f"the store {name!r} belongs to a table, whose own operator alone writes it")
            elif name in self._node.execution.topology.global_stores and name != self._keeps:
                why = "all tasks must hold the same, so only records of its topic change it"
                found = _ReadOnly(found, f"the global store {name!r} is read only here: {why}")
            self._stores[name] = found
        return found

    def schedule(self, interval: Duration, callback: Callable[[int], Any], *, clock: str = "stream") -> Cancellable:
        """Call `callback(now)` every `interval` of stream time (as records move it) or, with clock="wall", of real time.

        Intervals that were missed collapse into one call. The result's `cancel()` ends it.
        """
        return self._node.schedule(duration_milliseconds(interval, what="interval"), clock, callback)

    @property
    def stream_time(self) -> int:
        """The largest timestamp that this sub-topology has seen in this partition; -1 before the first."""
        return self._node.stream_time()

    @property
    def wall_time(self) -> int:
        """The task's clock, in milliseconds since the epoch; the driver's own in tests."""
        return self._node.wall_clock()

    @property
    def partition(self) -> int:
        """This task's partition."""
        return self._node.partition

    @property
    def source(self) -> Origin:
        """Where the input record that is being processed came from."""
        at = self._node.context
        return Origin(at.topic, at.partition, at.position)

    def commit(self) -> None:
        """Ask for a commit soon; it happens between records."""
        self._node.host.request_commit()


class GlobalProcessorContext(ProcessorContext[K, V]):
    """For the processor of a global store, which only keeps that store: every task runs it over all records."""

    def forward(self, record: Record[K, V], to: str | None = None) -> None:
        """Nothing comes after a global store's processor."""
        raise self._refused("forward records")

    def schedule(self, interval: Duration, callback: Callable[[int], Any], *, clock: str = "stream") -> Cancellable:
        """A global store is not aligned by time."""
        raise self._refused("schedule calls")

    @property
    def stream_time(self) -> int:
        """A global store is not aligned by time."""
        raise self._refused("ask for stream time")

    def commit(self) -> None:
        """Does nothing: the task commits by itself."""

    def _refused(self, what: str) -> RaystreamsError:
        return RaystreamsError(f"{self._node.name!r} keeps a global store and can't {what}; it may only use its store")


class _ReadOnly:
    """A store whose writes raise, with the reason."""

    def __init__(self, store: Any, why: str) -> None:
        self._store, self._why = store, why

    def __getattr__(self, attribute: str) -> Any:
        if attribute in _WRITES:
            raise StoreError(self._why)
        return getattr(self._store, attribute)


def store_name(store: Any) -> str:
    """The name behind a store's name, builder or Materialized; TypeError or ValueError for anything else."""
    if isinstance(store, str):
        return store
    if not isinstance(store, (StoreBuilder, Materialized)):
        raise TypeError(f"a store is given by its name, a Stores... builder or a Materialized, got {store!r}")
    if store.name is None:
        raise ValueError("a Materialized without a name can't be asked for; give it one")
    return store.name
