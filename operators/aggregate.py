"""`count`, `reduce` and `aggregate` of a grouped stream, without windows (spec-runtime 2.1, 2.2).

Records without a key or a value are dropped. The result's time is the largest of the records that contributed. Out-of-order
records count normally. None from the aggregator deletes the row; the next record begins anew.

Where old values are wanted, the first change of a row carries the initial value as its old one, as in Kafka Streams, so that
what subtracts downstream must know it too; a `reduce` has none, and neither has what goes through a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from raystreams.operators.cached import Cache, forwarding
from raystreams.operators.execution import NodeRuntime, TableView
from raystreams.operators.folding import Folds, copy_for_old
from raystreams.operators.record import Change, Headers, Process
from raystreams.operators.table_store import table_store
from raystreams.stores.serdes import Serde


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAggregate:
    """Folds each record into the row of its key."""

    store: str
    value: Serde[Any]
    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any, Any], Any]
    sends_old: bool
    name: str
    """What drops are counted under."""
    cache: Cache | None = None

    def start(self, node: NodeRuntime) -> Process:
        forward, failed, is_leaf = forwarding(node, self.cache, sends_old=self.sends_old), node.failed, node.is_leaf
        drop = node.dropping_as(self.name)
        table = table_store(node.store(self.store))
        get, put = table.get, table.put
        initializer, aggregator, sends_old = self.initializer, self.aggregator, self.sends_old or self.cache is not None
        initial_is_old = self.cache is None
        check = Folds(self.value).check

        def stored_or_initial(key: Any) -> Any:
            row = get(key)
            return initializer() if row is None else row.value

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            if key is None:
                return drop("null key")
            if value is None:
                return drop("null value")
            row = get(key)
            old = None
            try:
                if row is None:
                    aggregate, time = initializer(), timestamp
                else:
                    aggregate, time = row.value, row.timestamp
                    if timestamp > time:
                        time = timestamp
                if sends_old and (initial_is_old or row is not None):
                    old = copy_for_old(aggregate, stored_or_initial, key)
                result = aggregator(key, value, aggregate)
                if result is None:
                    check(None, aggregate, stored_or_initial, key)
            except Exception as error:
                return failed(error, key, value, timestamp, headers)
            latest = put(key, result, time)
            if latest is None:
                return drop("expired")
            if not is_leaf:
                forward(key, Change(result, old, latest), time, headers)

        return process

    def view(self, node: NodeRuntime) -> TableView:
        """Look up in the store."""
        return table_store(node.store(self.store))
