"""Tables from topics and streams: the last value of each key, None deletes (spec-joins 1).

A record without a key is dropped. Without versions an out-of-order record overwrites: the order of the topic wins. With
versions it goes behind the latest and is passed on as not latest, with the latest as its old value; older than the history
it is dropped. Equal values and repeated deletions are passed on too (no emit-on-change).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raystreams.operators.cached import Cache, cache_of, forwarding
from raystreams.operators.draft import GraphDraft
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.ktable import KTable
from raystreams.operators.options import Materialized
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.table_store import add_table_store, has_store, mark_of, table_store, typed
from raystreams.stores.serdes import KeySerde, ValueSerde
from raystreams.stores.values import Duration, duration_milliseconds

if TYPE_CHECKING:
    from raystreams.operators.kstream import KStream


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """Turns records into changes, and keeps the rows if there is a store."""

    store: str | None
    sends_old: bool
    cache: Cache | None = None

    def start(self, node: NodeRuntime) -> Process:
        forward, drop, is_leaf = node.forward, node.drop, node.is_leaf
        if self.store is None:

            def process_stateless(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
                if key is None:
                    return drop("null key")
                forward(key, Change(value, None), timestamp, headers)

            return process_stateless
        table = table_store(node.store(self.store))
        get, put, sends_old = table.get, table.put, self.sends_old or self.cache is not None
        forward = forwarding(node, self.cache, sends_old=self.sends_old)

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            old = get(key) if sends_old else None
            latest = put(key, value, timestamp)
            if latest is None:
                return drop("expired")
            if not is_leaf:
                forward(key, Change(value, old.value if old is not None else None, latest), timestamp, headers)

        return process

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the store."""
        assert self.store is not None, "a table that is looked up in has a store"
        return table_store(node.store(self.store))


def add_table(
    draft: GraphDraft,
    parent: str,
    node: str,
    generated_store: str,
    materialized: Materialized[Any, Any] | None,
    key: KeySerde,
    value: ValueSerde[Any],
) -> KTable[Any, Any]:
    """Add the node that makes a table of its parent's records. Its store is made only if it is needed (spec-joins 0.3)."""
    key, value = typed(materialized, key, value)

    def make_store() -> str:
        name = materialized.name if materialized is not None and materialized.name is not None else generated_store
        return add_table_store(draft, materialized, name, key, value)

    table = draft.add_table(
        TableDraft(
            node, "source", make_store=make_store, store=make_store() if has_store(materialized) else None,
            versioned=bool(mark_of(materialized, False)),
        )
    )
    cache = cache_of(materialized, key)
    draft.add(node, lambda: TableSource(store=table.store, sends_old=table.sends_old, cache=cache), [parent], stores=[table])
    return KTable(draft, node, key, value, table, materialized)


def to_table(
    stream: KStream[Any, Any], materialized: Materialized[Any, Any] | None, grace: Duration | None, name: str | None
) -> KTable[Any, Any]:
    """`KStream.to_table`: repartitioned if the key was changed, reordered if there is a grace."""
    draft = stream._draft
    node = draft.named("KSTREAM-TOTABLE-", name)
    store = draft.store_named("KSTREAM-TOTABLE-STATE-STORE-", materialized.name if materialized else None)
    parent = stream._keyed(node)._node
    if grace is not None:
        from raystreams.operators.reorder import add_reorder

        milliseconds = duration_milliseconds(grace, what="grace")
        parent = add_reorder(draft, parent, f"{node}-reorder", milliseconds, stream._key, stream._value)
    return add_table(draft, parent, node, store, materialized, stream._key, stream._value)
