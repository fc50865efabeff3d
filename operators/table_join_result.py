"""The result of a join of tables on one key: a table, stored only if asked for.

    inner   there is a row where every table has one
    left    where the first table has one
    outer   where any table has one

Without a store, looking up in the result joins the latest rows of the tables; its time is the largest of theirs. A join's
result counts as unversioned, whatever its tables are, unless its own store is versioned. That is allowed, and unsound: changes
that are not the latest never reach it (spec-joins 3.2).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.hints import value_of
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_draft import TableDraft
from raystreams.operators.table_store import add_table_store, mark_of, table_store, typed
from raystreams.stores.serdes import KeySerde, ValueSerde
from raystreams.stores.values import ValueAndTimestamp

if TYPE_CHECKING:
    from raystreams.operators.ktable import KTable
    from raystreams.operators.table_table_join import TableJoin

_logger = logging.getLogger(__name__)

Kind = Literal["inner", "left", "outer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """Takes the changes that the sides of a join give, and keeps them if there is a store."""

    kind: Kind
    joiner: Callable[..., Any]
    with_key: bool
    tables: tuple[str, ...]
    store: str | None
    sends_old: bool

    def start(self, node: NodeRuntime) -> Process:
        if self.store is None:
            return node.forward
        forward, drop, failed, sends_old = node.forward, node.drop, node.failed, self.sends_old
        put = table_store(node.store(self.store)).put

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            try:
                latest = put(key, change.new, timestamp)
            except Exception as error:
                return failed(error, key, change.new, timestamp, headers)
            if latest is None:
                return drop("expired")
            forward(key, Change(change.new, change.old if sends_old else None, latest), timestamp, headers)

        return process

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the own store, or join the latest rows of the tables."""
        if self.store is not None:
            return table_store(node.store(self.store))
        return _JoinView(self.kind, self.joiner, self.with_key, [node.view(table) for table in self.tables])


class _JoinView:
    versioned = False

    def __init__(self, kind: Kind, joiner: Callable[..., Any], with_key: bool, tables: list[TableView]) -> None:
        self._kind, self._joiner, self._with_key = kind, joiner, with_key
        self._lookups = [table.get for table in tables]

    def get(self, key: Any) -> ValueAndTimestamp[Any] | None:
        rows = [get(key) for get in self._lookups]
        if not _has_row(self._kind, [row is not None for row in rows]):
            return None
        values = [None if row is None else row.value for row in rows]
        result = self._joiner(key, *values) if self._with_key else self._joiner(*values)
        if result is None:
            return None
        return ValueAndTimestamp(result, max(row.timestamp for row in rows if row is not None))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp[Any] | None:
        raise TypeError("the result of a join keeps no versions; materialize it with Materialized.versioned(...)")


def _has_row(kind: Kind, present: list[bool]) -> bool:
    return all(present) if kind == "inner" else present[0] if kind == "left" else any(present)


def draft_result(tables: Sequence[KTable[Any, Any]], join: TableJoin) -> TableDraft:
    """Name the result and its store, and have the tables stored; those whose rows may stand alone send old values."""
    left, draft = tables[0], tables[0]._draft
    parents = tuple(table._table for table in tables)
    for number, parent in enumerate(parents):
        if join.kind == "outer" or (join.kind == "left" and number == 0):
            parent.enable_old()
        parent.materialize()
    store = None
    if join.materialized is not None:
        store = draft.store_named("KTABLE-MERGE-STATE-STORE-", join.materialized.name)
        add_table_store(draft, join.materialized, store, *_serdes(left, join))
    result = TableDraft(
        draft.named("KTABLE-MERGE-", join.name), "join", parents=parents, store=store,
        versioned=mark_of(join.materialized, False),
    )  # fmt: skip
    _warn_of_shared_stores(result)
    return draft.add_table(result)


def add_result(
    tables: Sequence[KTable[Any, Any]], join: TableJoin, result: TableDraft, sides: Sequence[str]
) -> KTable[Any, Any]:
    """Add the node of the result below the sides of the join."""
    from raystreams.operators.ktable import KTable

    left = tables[0]

    def make() -> JoinResult:
        return JoinResult(
            kind=join.kind, joiner=join.joiner, with_key=join.with_key, tables=tuple(table._node for table in tables),
            store=result.store, sends_old=result.sends_old,
        )  # fmt: skip

    stores = [result.store] if result.store is not None else []
    left._draft.add(result.node, make, sides, stores=stores, on_error=join.on_error)
    return KTable(left._draft, result.node, *_serdes(left, join), result, join.materialized)


def _serdes(left: KTable[Any, Any], join: TableJoin) -> tuple[KeySerde, ValueSerde[Any]]:
    return typed(join.materialized, left._key, value_of(join.joiner, join.value))


def _warn_of_shared_stores(result: TableDraft) -> None:
    """Two inputs over one store change at once, so a deleted row finds its partner gone, and says nothing (3.3)."""
    seen: set[str] = set()
    for parent in result.parents:
        stores = set(parent.view_stores())
        if shared := sorted(seen & stores):
            _logger.warning(
                "%r joins tables that share the store %r: when its row is deleted, an inner join says nothing, and the result "
                "keeps the old row. Join each table once, or use left_join", result.node, shared[0],
            )  # fmt: skip
            return
        seen |= stores
