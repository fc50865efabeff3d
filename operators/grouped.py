"""`KGroupedStream`: a stream grouped by its key; what may be made of it (names and types)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, overload

from raystreams.operators import folding
from raystreams.operators.aggregate import StreamAggregate
from raystreams.operators.cached import cache_of
from raystreams.operators.draft import GraphDraft
from raystreams.operators.hints import check_function, returned, value_of
from raystreams.operators.ktable import KTable
from raystreams.operators.options import Materialized, OnError, Topic, check_name
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.table_store import add_table_store, mark_of, typed
from raystreams.operators.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from raystreams.stores.serdes import KeySerde, Serde, ValueSerde, value_serde
from raystreams.stores.values import Duration
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.operators import aggregations
    from raystreams.operators.cogrouped import CogroupedKStream
    from raystreams.operators.kstream import KStream
    from raystreams.operators.rolling import RollingKStream
    from raystreams.operators.windowed import SessionWindowedKStream, TimeWindowedKStream

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
A = TypeVar("A")


class KGroupedStream(Generic[K, V]):
    """A stream grouped by its key. `name` names the repartition channel, if one is needed."""

    def __init__(self, stream: KStream[K, V], name: str | None) -> None:
        self._stream, self._name = stream, None if name is None else check_name(name, "group")
        self._draft: GraphDraft = stream._draft
        self._key, self._value = stream._key, stream._value
        self._routed: str | None = None

    def count(
        self, *, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None
    ) -> KTable[K, int]:
        """The number of records of each key, with a value that is not None."""
        aggregation = Aggregation("KSTREAM-AGGREGATE-", folding.zero, folding.counted, value_serde(int), name, on_error)
        return self._aggregated(aggregation, materialized)

    def reduce(
        self, reducer: Callable[[V, V], V], *, materialized: Materialized[Any, Any] | None = None, name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """`reducer(aggregate, value)` over the values of each key; the first value is taken as it is. None deletes."""
        check_function(reducer, "reducer")
        aggregation = Aggregation(
            "KSTREAM-REDUCE-", folding.nothing, folding.reducing(reducer), self._value, name, on_error
        )
        return self._aggregated(aggregation, materialized)

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A | None],
        *,
        value: type[A] | Serde[A] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """`aggregator(key, value, aggregate)` over the records of each key, from `initializer()` on. None deletes.

        The aggregate is a copy that the aggregator may change, and must return.
        """
        aggregation = Aggregation.of("KSTREAM-AGGREGATE-", initializer, aggregator, value, name, on_error)
        return self._aggregated(aggregation, materialized)

    def apply(
        self, aggregation: aggregations.Aggregation[V, A], *, materialized: Materialized[Any, Any] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """A ready-made aggregation of the values of each key: Count(), Mean(...), Aggregates(Stats, n=Count(), ...)."""
        from raystreams.operators.apply import Applied

        applied = Applied(aggregation, self._value, materialized, name, on_error, retracts=False)
        return applied.results(self._aggregated(*applied.parts("KSTREAM-AGGREGATE-")))

    @overload
    def windowed_by(
        self, windows: SessionWindows, *, late_records_to: str | Topic[K, V] | None = None
    ) -> SessionWindowedKStream[K, V]: ...
    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows, *, late_records_to: str | Topic[K, V] | None = None
    ) -> TimeWindowedKStream[K, V]: ...
    def windowed_by(self, windows: Any, *, late_records_to: str | Topic[K, V] | None = None) -> Any:
        """Aggregate by windows of time. Records that are late for all their windows go to `late_records_to`, if given."""
        from raystreams.operators.windowed import SessionWindowedKStream, TimeWindowedKStream

        if isinstance(windows, SessionWindows):
            return SessionWindowedKStream(self, windows, late_records_to)
        if isinstance(windows, (TimeWindows, SlidingWindows, UnlimitedWindows)):
            return TimeWindowedKStream(self, windows, late_records_to)
        raise TypeError(f"windowed_by takes TimeWindows, SlidingWindows, SessionWindows or UnlimitedWindows, got {windows!r}")

    def rolling(
        self, within: Duration, *, grace: Duration = 0, late_records_to: str | Topic[K, V] | None = None
    ) -> RollingKStream[K, V]:
        """Give one result a record: its value with an aggregate of its key over `(time - within, time]`, itself included.

        Records are taken in the order of their times: each waits `grace` for older ones, and what is older still is late.
        """
        from raystreams.operators.rolling import RollingKStream

        return RollingKStream(self, within, grace, late_records_to)

    def cogroup(self, aggregator: Callable[[K, V, Any], Any]) -> CogroupedKStream[K, Any]:
        """Begin to aggregate several grouped streams into one table, each with its own aggregator (KIP-150)."""
        from raystreams.operators.cogrouped import CogroupedKStream

        return CogroupedKStream(self._draft, self._key).cogroup(self, aggregator)

    # ---- inside

    def _source(self, base: str) -> str:
        """The node whose records are where their keys belong; a group with a name is routed once."""
        if not self._stream._key_changed:
            return self._stream._node
        if self._name is None:
            return self._stream._keyed(base)._node
        if self._routed is None:
            self._routed = self._stream._keyed(self._name)._node
        return self._routed

    def _aggregated(self, aggregation: Aggregation, materialized: Materialized[Any, Any] | None) -> KTable[Any, Any]:
        draft, name = self._draft, aggregation.name
        if materialized is not None and materialized.name is None:
            draft.number()  # as Kafka Streams does: names below stay the same
        wanted = materialized.name if materialized is not None and materialized.name is not None else name
        store = draft.store_named(f"{aggregation.prefix}STATE-STORE-", wanted)
        node = draft.named(aggregation.prefix, name)
        key, value = aggregation.serdes(self._key, materialized)
        source = self._source(aggregation.counted_as or (node if name is not None else store))
        add_table_store(draft, materialized, store, key, value)
        table = draft.add_table(TableDraft(node, "aggregate", store=store, versioned=bool(mark_of(materialized, False))))
        draft.add(
            node,
            lambda: StreamAggregate(
                store=store, value=value, initializer=aggregation.initializer, aggregator=aggregation.aggregator,
                sends_old=table.sends_old, name=aggregation.counted_as or node, cache=cache_of(materialized, key),
            ),
            [source], stores=[store], on_error=aggregation.on_error,
        )  # fmt: skip
        return KTable(draft, node, key, value, table, materialized)


class Aggregation:
    """What a user said about an aggregation, whatever it is of."""

    def __init__(
        self, prefix: str, initializer: Callable[[], Any], aggregator: Callable[..., Any], value: ValueSerde[Any],
        name: str | None, on_error: OnError | None, *, counted_as: str | None = None,
    ) -> None:
        self.counted_as = counted_as
        self.prefix, self.initializer, self.aggregator = prefix, initializer, aggregator
        self.value, self.name, self.on_error = value, name, on_error

    @classmethod
    def of(
        cls, prefix: str, initializer: Callable[[], Any], aggregator: Callable[..., Any], value: Any, name: str | None,
        on_error: OnError | None,
    ) -> Aggregation:
        """With the aggregate's type from `value`, else from the initializer, else from the aggregator."""
        check_function(initializer, "initializer")
        check_function(aggregator, "aggregator")
        hint = value_of(initializer, value, returned(aggregator))
        return cls(prefix, initializer, aggregator, hint, name, on_error)

    def serdes(
        self, key: KeySerde[Any], materialized: Materialized[Any, Any] | None
    ) -> tuple[KeySerde[Any], ValueSerde[Any]]:
        """The result's serdes: the materialization's, else the group's key and the aggregate's type."""
        return typed(materialized, key, self.value)
