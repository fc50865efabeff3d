"""`cogroup`: several grouped streams into one table, each with its own aggregator (KIP-150, spec-runtime 4.2).

One store; each input has an aggregation of its own over it, with its own clock, and a node that merges their results. Only
emit on update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

from raystreams.operators.aggregate import StreamAggregate
from raystreams.operators.cached import Cache, cache_of, forwarding
from raystreams.operators.draft import GraphDraft
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.grouped import Aggregation, KGroupedStream
from raystreams.operators.hints import check_function
from raystreams.operators.ktable import KTable
from raystreams.operators.options import Hint, Materialized, OnError
from raystreams.operators.record import Process
from raystreams.operators.session_aggregate import SessionView
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.table_store import add_table_store, mark_of, table_store
from raystreams.operators.window_aggregate import WindowView
from raystreams.operators.windowed import AnyWindows, add_windowed, window_store
from raystreams.operators.windowed_keys import windowed_key_serde
from raystreams.operators.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from raystreams.stores.serdes import KeySerde
from raystreams.stores.values import Windowed
from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
A = TypeVar("A", default=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class CogroupMerge:
    """Passes on the changes of all inputs' aggregations; what is below looks up in their store."""

    store: str
    windows: AnyWindows | None
    sends_old: bool
    cache: Cache | None = None

    def start(self, node: NodeRuntime) -> Process:
        return forwarding(node, self.cache, sends_old=self.sends_old)

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the shared store."""
        store = node.store(self.store)
        if self.windows is None:
            return table_store(store)
        return SessionView(store) if isinstance(self.windows, SessionWindows) else WindowView(store)


class CogroupedKStream(Generic[K, A]):
    """Grouped streams that are aggregated together."""

    def __init__(self, draft: GraphDraft, key: KeySerde[Any]) -> None:
        self._draft, self._key = draft, key
        self._inputs: list[tuple[KGroupedStream[Any, Any], Callable[..., Any]]] = []

    def cogroup(
        self, grouped: KGroupedStream[K, Any], aggregator: Callable[[K, Any, A], A | None]
    ) -> CogroupedKStream[K, A]:
        """Add a grouped stream; the same one again gets the new aggregator."""
        if not isinstance(grouped, KGroupedStream):
            raise TypeError(f"cogroup takes a grouped stream, got {grouped!r}")
        check_function(aggregator, "aggregator")
        if grouped._draft is not self._draft:
            raise ValueError("all grouped streams must come from the same StreamsBuilder")
        known = [entry[0] for entry in self._inputs]
        if grouped in known:
            self._inputs[known.index(grouped)] = grouped, aggregator
        else:
            self._inputs.append((grouped, aggregator))
        return self

    def windowed_by(self, windows: AnyWindows) -> WindowedCogroupedKStream[K, A]:
        """Aggregate by windows; sessions then need a merger."""
        if not isinstance(windows, (TimeWindows, SlidingWindows, SessionWindows, UnlimitedWindows)):
            raise TypeError(f"windowed_by takes windows, got {windows!r}")
        return WindowedCogroupedKStream(self, windows)

    def aggregate(
        self, initializer: Callable[[], A], *, value: Hint = None, materialized: Materialized[Any, Any] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """Aggregate all inputs into one table, from `initializer()` on."""
        draft, first = self._draft, self._aggregation(0, initializer, value, name, on_error)
        store = self._store_name(materialized, name)
        key, serde = first.serdes(self._key, materialized)
        add_table_store(draft, materialized, store, key, serde)
        parts: list[TableDraft] = []
        nodes: list[str] = []
        for index, (grouped, _) in enumerate(self._inputs):
            aggregation = self._aggregation(index, initializer, value, name, on_error)
            node = self._part_name(index, name)
            source = grouped._source(node if name is not None or index else store)
            table = draft.add_table(TableDraft(node, "aggregate", store=store, versioned=False))

            def make(aggregation: Aggregation = aggregation, table: TableDraft = table, node: str = node) -> StreamAggregate:
                return StreamAggregate(
                    store=store, value=serde, initializer=aggregation.initializer, aggregator=aggregation.aggregator,
                    sends_old=table.sends_old, name=name or node, cache=cache_of(materialized, key, is_below=True),
                )  # fmt: skip

            draft.add(node, make, [source], stores=[store], on_error=on_error)
            parts.append(table)
            nodes.append(node)
        return self._merged(store, nodes, parts, materialized, key, serde, name, None)

    # ---- inside

    def _aggregation(
        self, index: int, initializer: Callable[[], Any], value: Hint, name: str | None, on_error: OnError | None
    ) -> Aggregation:
        aggregator = self._inputs[index][1]
        return Aggregation.of("COGROUPKSTREAM-AGGREGATE-", initializer, aggregator, value, name, on_error)

    def _store_name(self, materialized: Materialized[Any, Any] | None, name: str | None) -> str:
        wanted = materialized.name if materialized is not None and materialized.name is not None else name
        return self._draft.store_named("COGROUPKSTREAM-AGGREGATE-STATE-STORE-", wanted)

    def _part_name(self, index: int, name: str | None) -> str:
        return self._draft.named("COGROUPKSTREAM-AGGREGATE-", None if name is None else f"{name}-cogroup-agg-{index}")

    def _merged(
        self, store: str, nodes: list[str], parts: list[TableDraft], materialized: Materialized[Any, Any] | None, key: Any,
        value: Any, name: str | None, windows: AnyWindows | None,
    ) -> KTable[Any, Any]:
        draft = self._draft
        node = draft.named("COGROUPKSTREAM-MERGE-", None if name is None else f"{name}-cogroup-merge")
        versioned = windows is None and bool(mark_of(materialized, False))
        table = draft.add_table(TableDraft(node, "join", parents=tuple(parts), store=store, versioned=versioned))
        cache = cache_of(materialized, key)

        def make() -> CogroupMerge:
            return CogroupMerge(store=store, windows=windows, sends_old=table.sends_old, cache=cache)

        draft.add(node, make, nodes, stores=[store])
        return KTable(draft, node, key, value, table, materialized)


class WindowedCogroupedKStream(Generic[K, A]):
    """Grouped streams that are aggregated together by windows."""

    def __init__(self, cogrouped: CogroupedKStream[K, A], windows: AnyWindows) -> None:
        self._cogrouped, self._windows = cogrouped, windows

    def aggregate(
        self, initializer: Callable[[], A], merger: Callable[[K, A, A], A] | None = None, *, value: Hint = None,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[Windowed[K], A]:
        """Aggregate all inputs by windows; `merger(key, a, b)` joins two sessions."""
        cogrouped, windows, draft = self._cogrouped, self._windows, self._cogrouped._draft
        if isinstance(windows, SessionWindows):
            check_function(merger, "merger")  # type: ignore[type-var]  # None is what it refuses
        elif merger is not None:
            raise ValueError("only sessions are merged; leave the merger out")
        store = cogrouped._store_name(materialized, name)
        key, serde = cogrouped._aggregation(0, initializer, value, name, on_error).serdes(cogrouped._key, materialized)
        draft.add_store(
            window_store(store, windows, materialized, key, serde, on_close=False),
            formerly=materialized.formerly if materialized is not None else None,
        )
        parts: list[TableDraft] = []
        nodes: list[str] = []
        for index, (grouped, _) in enumerate(cogrouped._inputs):
            node = cogrouped._part_name(index, name)
            source = grouped._source(node if name is not None or index else store)
            aggregation = cogrouped._aggregation(index, initializer, value, name, on_error)
            part = add_windowed(
                draft, source, node, store, windows, aggregation, materialized, cogrouped._key, merger=merger, on_close=False,
                late=None, add_store=False, counted_as=name,
            )  # fmt: skip
            parts.append(part._table)
            nodes.append(node)
        return cogrouped._merged(store, nodes, parts, materialized, windowed_key_serde(key), serde, name, windows)
