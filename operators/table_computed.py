"""Tables whose rows are computed one by one from another table's: filter, map_values, transform_values.

    change of the table above       change of this one
    new, old                   ->   compute(new), old

`compute(key, value, timestamp)` gives the row's value, None for no row. The old value, where someone below asked for it, is
read from the table's own store, or without one computed from the old value above. A row that the own store refuses (versioned,
older than its history) goes no further; the store decides what is latest, else what came in says it (spec-joins 0.3).

Without a store of its own the table is looked up in by computing from the row above, latest or as of a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raystreams.operators.draft import GraphDraft
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.options import Materialized
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.table_store import add_table_store, has_store, mark_of, table_store
from raystreams.stores.serdes import KeySerde, ValueSerde
from raystreams.stores.values import ValueAndTimestamp

if TYPE_CHECKING:
    from raystreams.operators.ktable import KTable

Compute = Callable[[Any, Any, int], Any]


def computed(
    node: NodeRuntime, compute: Compute, *, store: str | None, sends_old: bool, skips_absent: bool = False
) -> Process:
    """The process of a computed table. `skips_absent`: say nothing when there was no row and is none."""
    forward, failed, drop = node.forward, node.failed, node.drop
    skips_absent = skips_absent and sends_old

    def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
        try:
            new = compute(key, change.new, timestamp)
            old = compute(key, change.old, timestamp) if sends_old else None
        except Exception as error:
            return failed(error, key, change.new, timestamp, headers)
        if skips_absent and new is None and old is None:
            return
        forward(key, Change(new, old, change.is_latest), timestamp, headers)

    if store is None:
        return process
    table = table_store(node.store(store))
    get, put = table.get, table.put

    def process_stored(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
        try:
            new = compute(key, change.new, timestamp)
            row = get(key) if sends_old else None
            if skips_absent and new is None and row is None:
                return
            latest = put(key, new, timestamp)
        except Exception as error:
            return failed(error, key, change.new, timestamp, headers)
        if latest is None:
            return drop("expired")
        forward(key, Change(new, row.value if row is not None else None, latest), timestamp, headers)

    return process_stored


def computed_view(node: NodeRuntime, compute: Compute, *, store: str | None, parent: str, absent: bool = False) -> TableView:
    """The view of a computed table. `absent`: compute also where there is no row above, with time -1."""
    if store is not None:
        return table_store(node.store(store))
    return _ComputedView(node.view(parent), compute, absent)


class _ComputedView:
    def __init__(self, parent: TableView, compute: Compute, absent: bool) -> None:
        self.versioned = parent.versioned
        self._parent, self._compute, self._absent = parent, compute, absent

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        return self._row(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        return self._row(key, self._parent.get_as_of(key, timestamp))

    def _row(self, key: Any, row: ValueAndTimestamp[Any] | None) -> ValueAndTimestamp[Any] | None:
        if row is None:
            if not self._absent:
                return None
            row = ValueAndTimestamp(None, -1)
        value = self._compute(key, row.value, row.timestamp)
        return None if value is None else ValueAndTimestamp(value, row.timestamp)


def computed_draft(
    draft: GraphDraft,
    parent: TableDraft,
    prefix: str,
    name: str | None,
    materialized: Materialized[Any, Any] | None,
    serdes: tuple[KeySerde, ValueSerde[Any]],
    *,
    burns_number: bool = True,
    extra_stores: tuple[str, ...] = (),
) -> TableDraft:
    """Name a computed table and its store, if it is to have one, and register it.

    A Materialized that only has types makes no store, and leaves the table as versioned as the one above (8.3, DECISION).
    """
    store = None
    if has_store(materialized):
        assert materialized is not None
        store = draft.store_named(f"{prefix}STATE-STORE-", materialized.name)
    elif materialized is not None and burns_number:
        draft.number()
    node = draft.named(prefix, name)
    if store is not None:
        add_table_store(draft, materialized, store, *serdes)
    return draft.add_table(
        TableDraft(
            node, "derived", parents=(parent,), store=store, versioned=mark_of(materialized, None), extra_stores=extra_stores
        )
    )


def computed_table(
    above: KTable[Any, Any],
    table: TableDraft,
    make: Callable[[], Any],
    materialized: Materialized[Any, Any] | None,
    serdes: tuple[KeySerde, ValueSerde[Any]],
    **settings: Any,
) -> KTable[Any, Any]:
    """Add the node of a computed table below the one that it is computed from."""
    from raystreams.operators.ktable import KTable

    stores = [*([table.store] if table.store is not None else []), *settings.pop("stores", ())]
    above._draft.add(table.node, make, [above._node], stores=stores, **settings)
    return KTable(above._draft, table.node, *serdes, table, materialized)
