"""`KGroupedStream.rolling`: names and types of rolling aggregations. What they do is in `rolling_aggregate.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from raystreams.operators import folding
from raystreams.operators.aggregations import Aggregation
from raystreams.operators.apply import Applied
from raystreams.operators.grace_buffer import Waiting
from raystreams.operators.hints import check_function, returned, value_of
from raystreams.operators.late import late_sink
from raystreams.operators.options import Hint, Materialized, OnError, Topic
from raystreams.operators.rolling_aggregate import Aggregator, RollingAggregate
from raystreams.stores.builders import Stores, time_ordered_buffer
from raystreams.stores.serdes import Serde, ValueSerde, value_serde
from raystreams.stores.values import Duration, duration_milliseconds

if TYPE_CHECKING:
    from raystreams.operators.grouped import KGroupedStream
    from raystreams.operators.kstream import KStream

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")


class RollingKStream(Generic[K, V]):
    """A grouped stream, each record of which is to be joined with an aggregate of the time before it."""

    def __init__(
        self, grouped: KGroupedStream[K, V], within: Duration, grace: Duration, late: str | Topic[K, V] | None
    ) -> None:
        self._grouped, self._late = grouped, late_sink(late, grouped._key, grouped._value)
        self._within = duration_milliseconds(within, what="within")
        self._grace = duration_milliseconds(grace, what="grace")
        if self._within <= 0:
            raise ValueError(f"rolling needs a positive length of time, got {self._within} ms")
        if self._grace < 0:
            raise ValueError(f"grace must not be negative, got {self._grace} ms")

    def count(
        self, joiner: Callable[[V, int], R], *, value: type[R] | Serde[R] | None = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KStream[K, R]:
        """`joiner(value, n)`: n records with a value in that time, this one included."""
        return self._add(
            folding.zero, folding.counted, folding.uncounted, value_serde(int), joiner, value, materialized, name, on_error,
            keeps_values=False,
        )

    def aggregate(
        self, initializer: Callable[[], A], aggregator: Callable[[K, V, A], A], joiner: Callable[[V, A], R],
        subtractor: Callable[[K, V, A], A | None] | None = None, *, value: type[R] | Serde[R] | None = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KStream[K, R]:
        """`joiner(value, aggregate)`, the aggregate being folded from `initializer()` by `aggregator(key, value, aggregate)`.

        With a `subtractor`, which takes away what has become too old, each record costs the same however many the time holds.
        """
        if subtractor is not None:
            check_function(subtractor, "subtractor")
        serde = value_of(check_function(initializer, "initializer"), None, returned(check_function(aggregator, "aggregator")))
        return self._add(initializer, aggregator, subtractor, serde, joiner, value, materialized, name, on_error)

    def apply(
        self, aggregation: Aggregation[V, A], joiner: Callable[[V, A], R], *, value: type[R] | Serde[R] | None = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KStream[K, R]:
        """`joiner(value, result)` of a ready-made aggregation: Count(), Mean(...), Aggregates(Stats, n=Count(), ...)."""
        applied = Applied(aggregation, self._grouped._value, None, name, on_error, retracts=True)
        hint = value if value is not None else returned(check_function(joiner, "joiner"))

        def joined(own: Any, state: Any) -> Any:
            return joiner(own, applied.finished(state))

        return self._add(
            applied.initial, applied.added, applied.subtracted, applied.serde, joined, hint, materialized, name, on_error
        )

    def _add(
        self, initializer: Callable[[], Any], aggregator: Aggregator, subtractor: Aggregator | None, aggregate: ValueSerde[Any],
        joiner: Callable[..., Any], value: Hint, materialized: Materialized[Any, Any] | None, name: str | None,
        on_error: OnError | None, *, keeps_values: bool = True,
    ) -> KStream[Any, Any]:
        from raystreams.operators.kstream import KStream

        check_function(joiner, "joiner")
        grouped, draft, within = self._grouped, self._grouped._draft, self._within
        wanted = materialized.name if materialized is not None and materialized.name is not None else name
        store = draft.store_named("KSTREAM-ROLLING-STATE-STORE-", wanted)
        node = draft.named("KSTREAM-ROLLING-", name)
        source = grouped._source(node if name is not None else store)
        key, kept = grouped._key, grouped._value if keeps_values else value_serde(int)
        rows, running, waiting = f"{store}-rows", None, None
        times = within if subtractor is None else 2 * within
        draft.add_store(Stores.window(rows, retention=times, size=within, retain_duplicates=True, key=key, value=kept))
        if subtractor is not None:
            running = draft.add_store(Stores.window(store, retention=within, size=within, key=key, value=aggregate))
        if self._grace > 0:
            buffer = draft.add_store(time_ordered_buffer(f"{store}-waiting"))
            waiting = Waiting(store=buffer, grace=self._grace, key=key, value=grouped._value)
        operator = RollingAggregate(
            within=within, waiting=waiting, rows=rows, running=running, keeps_values=keeps_values, value=aggregate,
            initializer=initializer, aggregator=aggregator, subtractor=subtractor, joiner=joiner, late_records_to=self._late,
            name=node, key=key,
        )  # fmt: skip
        stores = [rows, *([running] if running is not None else []), *([waiting.store] if waiting is not None else [])]
        draft.add(node, lambda: operator, [source], stores=stores, on_error=on_error)
        return KStream(draft, node, key, value_of(joiner, value))
