"""`windowed_by`: what may be made of a grouped stream by windows of time (names and types), and the stores for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal

from raystreams.operators import folding
from raystreams.operators.cached import cache_of
from raystreams.operators.draft import GraphDraft
from raystreams.operators.grouped import Aggregation, KGroupedStream
from raystreams.operators.hints import check_function
from raystreams.operators.ktable import KTable
from raystreams.operators.late import late_sink
from raystreams.operators.options import EmitStrategy, Materialized, OnError, Topic
from raystreams.operators.session_aggregate import SessionAggregate
from raystreams.operators.sliding_aggregate import SlidingAggregate
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.window_aggregate import WindowAggregate
from raystreams.operators.windowed_keys import windowed_key_serde
from raystreams.operators.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from raystreams.stores.builders import StoreBuilder, Stores
from raystreams.stores.serdes import KeySerde, Serde, ValueSerde, value_serde
from raystreams.stores.values import MAX_TIME, Windowed
from typing_extensions import Self, TypeVar

if TYPE_CHECKING:
    from raystreams.operators import aggregations

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
A = TypeVar("A")

AnyWindows = TimeWindows | SlidingWindows | SessionWindows | UnlimitedWindows


class _Windowed(Generic[K, V]):
    """What time and session windows share."""

    def __init__(self, grouped: KGroupedStream[K, V], windows: AnyWindows, late: str | Topic[K, V] | None) -> None:
        self._grouped, self._windows = grouped, windows
        self._late = late_sink(late, grouped._key, grouped._value)
        self._strategy = EmitStrategy()

    def emit_strategy(self, strategy: EmitStrategy) -> Self:
        """When results come out: at every update, or once when a window has closed (KIP-825)."""
        if not isinstance(strategy, EmitStrategy):
            raise TypeError(f"emit_strategy takes EmitStrategy.on_window_close() or on_window_update(), got {strategy!r}")
        if strategy.on_close and isinstance(self._windows, UnlimitedWindows):
            raise ValueError("unlimited windows never close, so there is nothing to emit on their close")
        self._strategy = strategy
        return self

    def apply(
        self, aggregation: aggregations.Aggregation[V, A], *, materialized: Materialized[Any, Any] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """A ready-made aggregation of each key and window: Count(), Mean(...), Aggregates(Stats, n=Count(), ...)."""
        from raystreams.operators.apply import Applied

        grouped, windows = self._grouped, self._windows
        applied = Applied(aggregation, grouped._value, materialized, name, on_error, retracts=False)
        parts, stored = applied.parts("KSTREAM-AGGREGATE-")

        def builder(store: str, value: ValueSerde[Any]) -> StoreBuilder[Any]:
            return window_store(store, windows, materialized, parts.serdes(grouped._key, stored)[0], value, on_close=False)

        return applied.results(self._make(parts, stored, applied.merged), builder)

    def _make(
        self, aggregation: Aggregation, materialized: Materialized[Any, Any] | None, merger: Callable[..., Any] | None = None
    ) -> KTable[Any, Any]:
        grouped, draft = self._grouped, self._grouped._draft
        prefix, name = aggregation.prefix, aggregation.name
        if materialized is not None and materialized.name is None:
            draft.number()
        wanted = materialized.name if materialized is not None and materialized.name is not None else name
        store = draft.store_named(f"{prefix}STATE-STORE-", wanted)
        node = draft.named(prefix, name)
        source = grouped._source(aggregation.counted_as or (node if name is not None else store))
        return add_windowed(
            draft, source, node, store, self._windows, aggregation, materialized, grouped._key, merger=merger,
            on_close=self._strategy.on_close, late=self._late, counted_as=aggregation.counted_as,
        )  # fmt: skip


class TimeWindowedKStream(_Windowed[K, V]):
    """A grouped stream by time, sliding or unlimited windows."""

    def count(
        self, *, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None
    ) -> KTable[Windowed[K], int]:
        """The number of records of each key and window."""
        aggregation = Aggregation("KSTREAM-AGGREGATE-", folding.zero, folding.counted, value_serde(int), name, on_error)
        return self._make(aggregation, materialized)

    def reduce(
        self, reducer: Callable[[V, V], V], *, materialized: Materialized[Any, Any] | None = None, name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], V]:
        """`reducer(aggregate, value)` over the values of each key and window."""
        reducing = folding.reducing(check_function(reducer, "reducer"))
        aggregation = Aggregation("KSTREAM-REDUCE-", folding.nothing, reducing, self._grouped._value, name, on_error)
        return self._make(aggregation, materialized)

    def aggregate(
        self, initializer: Callable[[], A], aggregator: Callable[[K, V, A], A | None], *,
        value: type[A] | Serde[A] | None = None, materialized: Materialized[Any, Any] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """`aggregator(key, value, aggregate)` over the records of each key and window."""
        aggregation = Aggregation.of("KSTREAM-AGGREGATE-", initializer, aggregator, value, name, on_error)
        return self._make(aggregation, materialized)


class SessionWindowedKStream(_Windowed[K, V]):
    """A grouped stream by sessions."""

    def count(
        self, *, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None
    ) -> KTable[Windowed[K], int]:
        """The number of records of each session."""
        aggregation = Aggregation("KSTREAM-AGGREGATE-", folding.zero, folding.counted, value_serde(int), name, on_error)
        return self._make(aggregation, materialized, folding.added)

    def reduce(
        self, reducer: Callable[[V, V], V], *, materialized: Materialized[Any, Any] | None = None, name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[Windowed[K], V]:
        """`reducer(aggregate, value)` over the values of each session."""
        check_function(reducer, "reducer")
        aggregation = Aggregation(
            "KSTREAM-REDUCE-", folding.nothing, folding.reducing(reducer), self._grouped._value, name, on_error
        )
        return self._make(aggregation, materialized, folding.merging(reducer))

    def aggregate(
        self, initializer: Callable[[], A], aggregator: Callable[[K, V, A], A | None], merger: Callable[[K, A, A], A], *,
        value: type[A] | Serde[A] | None = None, materialized: Materialized[Any, Any] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """`aggregator(key, value, aggregate)` over the records of each session; `merger(key, a, b)` joins two sessions."""
        check_function(merger, "merger")
        aggregation = Aggregation.of("KSTREAM-AGGREGATE-", initializer, aggregator, value, name, on_error)
        return self._make(aggregation, materialized, merger)


def add_windowed(
    draft: GraphDraft, source: str, node: str, store: str, windows: AnyWindows, aggregation: Aggregation,
    materialized: Materialized[Any, Any] | None, group_key: KeySerde[Any], *, merger: Callable[..., Any] | None,
    on_close: bool, late: Any, add_store: bool = True, counted_as: str | None = None,
) -> KTable[Any, Any]:
    """Add a windowed aggregation under its names; returns the windowed table. `counted_as` names its drops."""
    key, value = aggregation.serdes(group_key, materialized)
    if add_store:
        draft.add_store(
            window_store(store, windows, materialized, key, value, on_close=on_close),
            formerly=materialized.formerly if materialized is not None else None,
        )
    table = draft.add_table(TableDraft(node, "aggregate", store=store, versioned=False))
    windowed_key = windowed_key_serde(key)
    cache = None if on_close else cache_of(materialized, windowed_key, is_below=not add_store)
    draft.window_graces[node] = _grace(windows), _length(windows)

    def make() -> Any:
        common: dict[str, Any] = {
            "store": store, "windows": windows, "value": value, "initializer": aggregation.initializer,
            "aggregator": aggregation.aggregator, "on_close": on_close, "late_records_to": late,
            "sends_old": table.sends_old, "name": counted_as or node, "cache": cache,
        }  # fmt: skip
        if isinstance(windows, SessionWindows):
            assert merger is not None
            return SessionAggregate(merger=merger, **common)
        return (SlidingAggregate if isinstance(windows, SlidingWindows) else WindowAggregate)(**common)

    draft.add(node, make, [source], stores=[store], on_error=aggregation.on_error)
    return KTable(draft, node, windowed_key, value, table, materialized)


def window_store(
    name: str, windows: AnyWindows, materialized: Materialized[Any, Any] | None, key: KeySerde[Any], value: ValueSerde[Any], *,
    on_close: bool,
) -> StoreBuilder[Any]:
    """The store of a windowed aggregation; ValueError for a retention that does not cover a window and its grace."""
    kind: Literal["session", "window"] = "session" if isinstance(windows, SessionWindows) else "window"
    if materialized is not None and materialized.kind not in (kind, "key_value"):
        raise ValueError(f"a {materialized.kind} store can't hold this table; use Materialized.{kind}(...)")
    needed = _needed(windows)
    retention = materialized.retention if materialized is not None and materialized.retention is not None else needed
    if retention < needed:
        raise ValueError(f"retention ({retention} ms) must cover a window and its grace: at least {needed} ms")
    if isinstance(windows, SessionWindows):
        # One millisecond more keeps a session that ends exactly at the close time until it is given out. Updates do without,
        # as in Kafka Streams; but with no gap and no grace no session would ever be found again.
        kept = retention + 1 if on_close else max(retention, 1)
        return Stores.session(name, retention=kept, key=key, value=value, time_first=on_close)
    size = windows.time_difference if isinstance(windows, SlidingWindows) else windows.size
    return Stores.timestamped_window(name, retention=retention, size=size, key=key, value=value, time_first=on_close)


def _needed(windows: AnyWindows) -> int:
    if isinstance(windows, SessionWindows):
        return windows.inactivity_gap + windows.grace
    if isinstance(windows, SlidingWindows):
        return 2 * windows.time_difference + windows.grace
    return min(windows.size + windows.grace, MAX_TIME)


def _length(windows: AnyWindows) -> int:
    """How much older than its window's end a result may be; a session's time is its end."""
    if isinstance(windows, SessionWindows):
        return 0
    return windows.time_difference if isinstance(windows, SlidingWindows) else windows.size


def _grace(windows: AnyWindows) -> int:
    """How long after a window's end `suppress` holds it back."""
    return windows.grace + (windows.inactivity_gap if isinstance(windows, SessionWindows) else 0)
