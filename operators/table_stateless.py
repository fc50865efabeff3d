"""`filter`, `map_values` and `to_stream` of tables (spec-joins 2).

filter: a row that fails the predicate is no row below, so it is deleted there. Where nothing was and nothing is, nothing need
be said; but that is only known with old values, which the filter gets if the table above was stored when `filter` was
called, or if someone below asks for them. Without old values every row that fails becomes a deletion. With a versioned
table above every change is passed on (KIP-914): what is not said now may be asked for as of a time. It is the table above that
decides, not the filter's own store.

map_values: one change for each change. Neither the predicate nor the mapper is ever called with None.

Both ask to pass on old values, never to be stored themselves: see `table_computed.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.hints import value_of
from raystreams.operators.options import Hint, Materialized, OnError
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_computed import Compute, computed, computed_draft, computed_table, computed_view
from raystreams.operators.table_store import typed

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream
    from raystreams.operators.ktable import KTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    """Keeps rows for which the predicate's answer is `keep`."""

    predicate: Callable[[Any, Any], bool]
    keep: bool
    parent: str
    store: str | None
    sends_old: bool
    parent_versioned: bool

    def start(self, node: NodeRuntime) -> Process:
        return computed(
            node, self._compute(), store=self.store, sends_old=self.sends_old, skips_absent=not self.parent_versioned
        )

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the own store, or test the row above."""
        return computed_view(node, self._compute(), store=self.store, parent=self.parent)

    def _compute(self) -> Compute:
        predicate, keep = self.predicate, self.keep

        def compute(key: Any, value: Any, timestamp: int) -> Any:
            return value if value is not None and bool(predicate(key, value)) is keep else None

        return compute


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMapValues:
    """A new value for each row."""

    mapper: Callable[..., Any]
    with_key: bool
    parent: str
    store: str | None
    sends_old: bool

    def start(self, node: NodeRuntime) -> Process:
        return computed(node, self._compute(), store=self.store, sends_old=self.sends_old)

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the own store, or map the row above."""
        return computed_view(node, self._compute(), store=self.store, parent=self.parent)

    def _compute(self) -> Compute:
        mapper = self.mapper

        def compute(key: Any, value: Any, timestamp: int) -> Any:
            return None if value is None else mapper(value)

        def compute_with_key(key: Any, value: Any, timestamp: int) -> Any:
            return None if value is None else mapper(key, value)

        return compute_with_key if self.with_key else compute


@dataclass(frozen=True, slots=True)
class ToStream:
    """Takes the new value out of each change."""

    def start(self, node: NodeRuntime) -> Process:
        forward = node.forward

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            forward(key, change.new, timestamp, headers)

        return process


def add_filter(
    above: KTable[Any, Any],
    predicate: Callable[[Any, Any], bool],
    keep: bool,
    materialized: Materialized[Any, Any] | None,
    name: str | None,
    on_error: OnError | None,
) -> KTable[Any, Any]:
    """`KTable.filter` and `filter_not`."""
    parent, serdes = above._table, typed(materialized, above._key, above._value)
    table = computed_draft(above._draft, parent, "KTABLE-FILTER-", name, materialized, serdes)
    # As good as for free where the table above is stored already; not worth storing it (KAFKA-10077).
    table.sends_old = parent.enable_old(force=False)

    def make() -> TableFilter:
        return TableFilter(
            predicate=predicate, keep=keep, parent=parent.node, store=table.store, sends_old=table.sends_old,
            parent_versioned=parent.versioned,
        )  # fmt: skip

    return computed_table(above, table, make, materialized, serdes, on_error=on_error)


def add_map_values(
    above: KTable[Any, Any],
    mapper: Callable[..., Any],
    with_key: bool,
    value: Hint,
    materialized: Materialized[Any, Any] | None,
    name: str | None,
    on_error: OnError | None,
) -> KTable[Any, Any]:
    """`KTable.map_values`."""
    serdes = typed(materialized, above._key, value_of(mapper, value))
    table = computed_draft(above._draft, above._table, "KTABLE-MAPVALUES-", name, materialized, serdes)

    def make() -> TableMapValues:
        return TableMapValues(
            mapper=mapper, with_key=with_key, parent=above._node, store=table.store, sends_old=table.sends_old
        )

    return computed_table(above, table, make, materialized, serdes, on_error=on_error)


def add_to_stream(above: KTable[Any, Any], name: str | None) -> KStream[Any, Any]:
    """`KTable.to_stream`: what is deleted comes out as None; old values are gone."""
    from raystreams.operators.kstream import KStream

    draft = above._draft
    node = draft.add(draft.named("KTABLE-TOSTREAM-", name), ToStream, [above._node])
    return KStream(draft, node, above._key, above._value)
