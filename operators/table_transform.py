"""`transform_values` of tables: a mapper with stores and state of its own (KIP-149, spec-joins 2.1).

    class Rank:
        def init(self, context): ...          # optional; context.store(...), context.timestamp; it may not forward
        def transform(self, key, value): ...  # each change, deletions too (value is None); returns the row, None for none

Unlike a mapper it sees deletions, and may make a row of one. Without a store of its own the table calls the transformer again
for each old value that someone below wants. Looking up in it runs another transformer of the same supplier over the row
above, also where there is none (value None, time -1); that one has no record at hand. So a transformer that keeps state in
its attributes wants `materialized=`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.options import Hint, Materialized, OnError
from raystreams.operators.processor import check_supplier, connect_stores, start_processor, tables_of
from raystreams.operators.processor_context import Origin, ProcessorContext
from raystreams.operators.record import Process, Record
from raystreams.operators.table_computed import Compute, computed, computed_draft, computed_table, computed_view
from raystreams.operators.table_store import typed
from raystreams.stores.errors import RaystreamsError
from raystreams.stores.serdes import value_serde

if TYPE_CHECKING:
    from raystreams.operators.ktable import KTable


class TransformContext(ProcessorContext[Any, Any]):
    """What a transformer sees of its task. `timestamp` is that of the row in hand; -1 where there is no row."""

    timestamp = -1

    def __init__(self, node: NodeRuntime, *, tables: Collection[str], looks_up: bool = False) -> None:
        super().__init__(node, tables=tables)
        self._looks_up = looks_up

    def forward(self, record: Record[Any, Any], to: str | None = None) -> NoReturn:
        """A transformer gives one row for each row, by returning it."""
        raise RaystreamsError(f"{self._node.name!r} is a transform_values and can't forward; return the row's value")

    @property
    def source(self) -> Origin:
        """Where the input record came from; a look-up has none."""
        return Origin(None, -1, -1) if self._looks_up else super().source


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformValues:
    """Runs a transformer over each row."""

    supplier: Callable[[], Any]
    tables: frozenset[str]
    parent: str
    store: str | None
    sends_old: bool

    def start(self, node: NodeRuntime) -> Process:
        context = TransformContext(node, tables=self.tables)
        return computed(node, self._compute(node, context), store=self.store, sends_old=self.sends_old)

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the own store, or transform the row above."""
        if self.store is not None:
            return computed_view(node, lambda key, value, timestamp: value, store=self.store, parent=self.parent)
        context = TransformContext(node, tables=self.tables, looks_up=True)
        return computed_view(node, self._compute(node, context), store=None, parent=self.parent, absent=True)

    def _compute(self, node: NodeRuntime, context: TransformContext) -> Compute:
        transform = start_processor(self.supplier(), context, node).transform

        def compute(key: Any, value: Any, timestamp: int) -> Any:
            context.timestamp = timestamp
            return transform(key, value)

        return compute


def add_transform_values(
    above: KTable[Any, Any],
    supplier: Callable[[], Any],
    stores: Sequence[Any],
    value: Hint,
    materialized: Materialized[Any, Any] | None,
    name: str | None,
    on_error: OnError | None,
) -> KTable[Any, Any]:
    """`KTable.transform_values`."""
    check_supplier(supplier, "transform")
    draft, parent = above._draft, above._node
    names = connect_stores(draft, supplier, stores)
    serdes = typed(materialized, above._key, value_serde(value))
    table = computed_draft(
        draft, above._table, "KTABLE-TRANSFORMVALUES-", name, materialized, serdes, burns_number=False,
        extra_stores=tuple(store for store in names if store not in draft.global_stores),
    )  # fmt: skip

    def make() -> TransformValues:
        return TransformValues(
            supplier=supplier, tables=tables_of(draft), parent=parent, store=table.store, sends_old=table.sends_old
        )

    return computed_table(above, table, make, materialized, serdes, on_error=on_error, stores=names)
