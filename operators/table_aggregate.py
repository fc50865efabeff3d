"""The receiving side of a grouped table: subtract what a row was, add what it is (spec-runtime 2.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.cached import Cache, forwarding
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.folding import Folds
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_store import table_store
from raystreams.stores.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAggregate:
    """Folds changes of rows into the row of their group.

    A subtraction without an aggregate is skipped. Where subtracting has left nothing, adding begins at the initial value;
    a `reduce` then takes the new value as it is. The time is the record's, and the largest once an aggregate took part.
    """

    store: str
    value: Serde[Any]
    initializer: Callable[[], Any]
    adder: Callable[[Any, Any, Any], Any]
    subtractor: Callable[[Any, Any, Any], Any]
    sends_old: bool
    reduces: bool
    cache: Cache | None = None

    def start(self, node: NodeRuntime) -> Process:
        failed, drop, is_leaf = node.failed, node.drop, node.is_leaf
        forward = forwarding(node, self.cache, sends_old=self.sends_old)
        table = table_store(node.store(self.store))
        get, put = table.get, table.put
        initializer, adder, subtractor = self.initializer, self.adder, self.subtractor
        sends_old = self.sends_old or self.cache is not None
        reduces, check = self.reduces, Folds(self.value, self.initializer).check

        def before_adding(key: Any, change: Change) -> Any:
            row = get(key)
            aggregate = None if row is None else row.value
            if change.old is not None and row is not None:
                aggregate = subtractor(key, change.old, aggregate)
            return aggregate if aggregate is not None else initializer()

        def stored(key: Any) -> Any:
            row = get(key)
            return None if row is None else row.value

        def subtracted(key: Any, change: Change) -> Any:
            aggregate = stored(key)
            if change.old is not None and aggregate is not None:
                aggregate = subtractor(key, change.old, aggregate)
            return aggregate if aggregate is not None else initializer()

        def process(key: Any, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                raise ValueError("a grouped table can't have a null group key")
            row = get(key)
            aggregate = None if row is None else row.value
            time = timestamp
            try:
                if change.old is not None and row is not None:
                    time = max(timestamp, row.timestamp)
                    given = aggregate
                    aggregate = subtractor(key, change.old, given)
                    if aggregate is None:
                        check(None, given, stored, key)
                if change.new is not None:
                    if row is not None and not (reduces and aggregate is None):
                        time = max(time, row.timestamp)
                    base = aggregate if aggregate is not None else initializer()
                    aggregate = adder(key, change.new, base)
                    if aggregate is None:
                        check(None, base, subtracted, key, change)
                    if aggregate is None:
                        check(None, base, lambda: before_adding(key, change))
            except Exception as error:
                return failed(error, key, change.new, timestamp, headers)
            old = get(key) if sends_old and row is not None else None
            latest = put(key, aggregate, time)
            if latest is None:
                return drop("expired")
            if not is_leaf:
                forward(key, Change(aggregate, old.value if old is not None else None, latest), time, headers)

        return process

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the store."""
        return table_store(node.store(self.store))
