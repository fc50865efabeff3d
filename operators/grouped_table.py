"""`KTable.group_by`: rows move between groups, so a group's aggregate needs an adder and a subtractor (spec-runtime 2.3).

    table --Change(new, old)--> [select] --Change, keyed by group--> channel --> [aggregate: subtract old, add new]

The two groups of a change may live on different tasks: then the subtraction and the addition go apart, the subtraction
first. With equal groups they travel as one, so that no state in between is seen. A change of a versioned table that is not
the latest of its key is left out here (KIP-914).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

import msgpack
from raystreams.operators import folding
from raystreams.operators.cached import cache_of
from raystreams.operators.execution import NodeRuntime
from raystreams.operators.graph import Channel, ChannelSink, ChannelSource
from raystreams.operators.grouped import Aggregation
from raystreams.operators.hints import DeclaredOrPlain, check_function, pair_of
from raystreams.operators.ktable import KTable
from raystreams.operators.options import Hint, Materialized, OnError
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_aggregate import TableAggregate
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.table_store import add_table_store, mark_of
from raystreams.stores.serdes import Serde, value_serde
from typing_extensions import TypeVar

if TYPE_CHECKING:
    from raystreams.operators import aggregations

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
A = TypeVar("A")


class ChangeSerde:
    """Changes of grouped tables on their way: (new, old), each with the value's serde."""

    def __init__(self, value: Serde[Any]) -> None:
        self._value = value
        self.description = ["change", getattr(value, "description", type(value).__name__)]

    def encode(self, change: Change) -> bytes:
        """The bytes of a change."""
        encode = self._value.encode
        new = None if change.new is None else encode(change.new)
        data: bytes = msgpack.packb((new, None if change.old is None else encode(change.old)))
        return data

    def decode(self, data: bytes) -> Change:
        """The change of bytes."""
        decode = self._value.decode
        new, old = msgpack.unpackb(data)
        return Change(None if new is None else decode(new), None if old is None else decode(old))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectGroup:
    """Turns a change of a row into changes of groups."""

    selector: Callable[[Any, Any], Any]
    parent_versioned: bool

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, selector, versioned = node.forward, node.failed, self.selector, self.parent_versioned

        def grouped(key: Any, value: Any) -> tuple[Any, Any] | None:
            if value is None:
                return None
            pair = selector(key, value)
            if pair is None:
                return None
            group, grouped_value = pair
            return None if group is None or grouped_value is None else (group, grouped_value)

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if versioned and not change.is_latest:
                return
            try:
                new, old = grouped(key, change.new), grouped(key, change.old)
            except Exception as error:
                return failed(error, key, change.new, timestamp, headers)
            if new is not None and old is not None and type(new[0]) is type(old[0]) and new[0] == old[0]:
                return forward(new[0], Change(new[1], old[1]), timestamp, headers)
            if old is not None:
                forward(old[0], Change(None, old[1]), timestamp, headers)
            if new is not None:
                forward(new[0], Change(new[1], None), timestamp, headers)

        return process


class KGroupedTable(Generic[K, V]):
    """A table grouped by what the selector returns."""

    def __init__(
        self, table: KTable[Any, Any], selector: Callable[[Any, Any], Any], key: Hint, value: Hint, name: str | None,
        on_error: OnError | None,
    ) -> None:
        self._draft, self._name = table._draft, name
        self._key, self._value = pair_of(selector, key, value)
        plain = value_serde(None).description
        if self._value.description == plain != table._value.description:
            self._value = value_serde(DeclaredOrPlain(table._value))  # the selector may well return the row itself
        table._table.enable_old()
        self._select = self._draft.named("KTABLE-SELECT-", name)
        parent = table._table
        self._draft.add(
            self._select, lambda: SelectGroup(selector=selector, parent_versioned=parent.versioned), [table._node],
            on_error=on_error,
        )  # fmt: skip
        self._routed: str | None = None

    def count(
        self, *, materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None
    ) -> KTable[K, int]:
        """The number of rows of each group. A group that has lost all its rows stays, with 0."""
        aggregation = Aggregation("KTABLE-AGGREGATE-", folding.zero, folding.counted, value_serde(int), name, on_error)
        return self._aggregated(aggregation, folding.uncounted, materialized)

    def reduce(
        self, adder: Callable[[V, V], V], subtractor: Callable[[V, V], V], *,
        materialized: Materialized[Any, Any] | None = None, name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[K, V]:
        """`adder(aggregate, value)` for rows that come, `subtractor(aggregate, value)` for rows that go."""
        check_function(adder, "adder")
        check_function(subtractor, "subtractor")
        aggregation = Aggregation("KTABLE-REDUCE-", folding.nothing, folding.reducing(adder), self._value, name, on_error)
        return self._aggregated(aggregation, lambda key, value, a: subtractor(a, value), materialized, reduces=True)

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A | None],
        subtractor: Callable[[K, V, A], A | None],
        *,
        value: type[A] | Serde[A] | None = None,
        materialized: Materialized[Any, Any] | None = None,
        name: str | None = None,
        on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """`adder(key, value, aggregate)` for rows that come, `subtractor(key, value, aggregate)` for rows that go."""
        check_function(subtractor, "subtractor")
        aggregation = Aggregation.of("KTABLE-AGGREGATE-", initializer, adder, value, name, on_error)
        return self._aggregated(aggregation, subtractor, materialized)

    def apply(
        self, aggregation: aggregations.Aggregation[V, A], *, materialized: Materialized[Any, Any] | None = None,
        name: str | None = None, on_error: OnError | None = None,
    ) -> KTable[K, A]:
        """A ready-made aggregation of the rows of each group: Count(), Mean(...), Aggregates(Stats, n=Count(), ...).

        A group that has lost all its rows is deleted.
        """
        from raystreams.operators.apply import Applied

        applied = Applied(aggregation, self._value, materialized, name, on_error, retracts=True)
        parts, stored = applied.parts("KTABLE-AGGREGATE-")
        return applied.results(self._aggregated(parts, applied.subtracted, stored))

    def _aggregated(
        self, aggregation: Aggregation, subtractor: Callable[[Any, Any, Any], Any],
        materialized: Materialized[Any, Any] | None, *, reduces: bool = False,
    ) -> KTable[Any, Any]:
        draft, name = self._draft, aggregation.name
        if materialized is not None and materialized.name is None:
            draft.number()
        wanted = materialized.name if materialized is not None and materialized.name is not None else name
        store = draft.store_named("KTABLE-AGGREGATE-STATE-STORE-", wanted)
        source = self._source(self._name or aggregation.counted_as or store, aggregation.counted_as or name)
        node = draft.named(aggregation.prefix, name)
        key, value = aggregation.serdes(self._key, materialized)
        add_table_store(draft, materialized, store, key, value)
        table = draft.add_table(TableDraft(node, "aggregate", store=store, versioned=bool(mark_of(materialized, False))))
        draft.add(
            node,
            lambda: TableAggregate(
                store=store, value=value, initializer=aggregation.initializer, adder=aggregation.aggregator,
                subtractor=subtractor, sends_old=table.sends_old, reduces=reduces, cache=cache_of(materialized, key),
            ),
            [source], stores=[store], on_error=aggregation.on_error,
        )  # fmt: skip
        return KTable(draft, node, key, value, table, materialized)

    def _source(self, base: str, name: str | None) -> str:
        """The channel that carries the changes to their groups' tasks; one with a name is shared."""
        if self._routed is not None:
            return self._routed
        draft, channel = self._draft, f"{base}-repartition"
        draft.number(), draft.number()
        sink = draft.add(f"{name or base}-sink", lambda: ChannelSink(channel=channel), [self._select])
        source = draft.add(f"{name or base}-source", lambda: ChannelSource(channel=channel))
        draft.add_channel(
            Channel(name=channel, source=source, key=self._key, value=ChangeSerde(self._value), is_table=True)
        )
        if self._name is not None:
            self._routed = source
        assert sink
        return source
